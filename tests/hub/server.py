"""A hub on loopback: the endpoints that huggingface_hub asks, and faults on demand.

What it answers is what https://huggingface.co answers, as far as clients look: `siblings` and
`sha` of a revision, its tree in pages, `resolve` with the headers of the cache protocol, and
for files of the large file storage a redirect to a server of another origin.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

GOOD_TOKEN = "hf_goodTokenOfTheTests"
_LARGE = (".safetensors", ".bin", ".onnx", ".model")


class Repository:
    """Commits of a repository, each a mapping of paths to bytes."""

    def __init__(self, files, *, private=False, gated=False):
        self.commits = {}
        self.branches = {}
        self.private = private
        self.gated = gated
        self.push(files)

    def push(self, files, branch="main"):
        seed = f"{len(self.commits)}:{sorted(files)}"
        commit = hashlib.sha1(seed.encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.branches[branch] = commit
        return commit

    @property
    def head(self):
        return self.branches["main"]

    def resolve(self, revision):
        commit = self.branches.get(revision, revision)
        return commit if commit in self.commits else None


@dataclass
class Fault:
    """What goes wrong with requests whose path has a part in it.

    Attributes:
        status: answered instead.
        cut: bytes of the body after which the connection ends.
        stall: bytes of the body after which nothing comes for `seconds`.
        flip: the byte of the body that arrives changed.
        spares: the first requests of this kind, which go right.
        times: that it happens; for ever when None.
    """

    part: str
    status: int | None = None
    headers: dict = field(default_factory=dict)
    cut: int | None = None
    stall: int | None = None
    flip: int | None = None
    seconds: float = 0
    no_ranges: bool = False
    spares: int = 0
    times: int | None = 1


@dataclass
class Seen:
    """A request, and how many bytes of a body it was sent."""

    method: str
    path: str
    range: str | None
    token: str | None
    status: int = 0
    sent: int = 0
    storage: bool = False


class HubServer:
    """The hub and the storage behind it, which has an origin of its own."""

    def __init__(self, page=5):
        self.repositories = {}
        self.faults = []
        self.requests = []
        self.page = page
        self.lock = threading.Lock()
        self._servers = [self._start(_Hub), self._start(_Storage)]
        self.url, self.storage_url = (
            f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers
        )

    def _start(self, handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.block_on_close = False
        server.hub = self
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def stop(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers = []

    def add(self, name, files, **options):
        repository = self.repositories[name] = Repository(files, **options)
        return repository

    def forget_requests(self):
        with self.lock:
            self.requests = []

    def bodies(self):
        """The successful requests for the content of files, as (path, range, bytes sent)."""
        with self.lock:
            return [
                (seen.path, seen.range, seen.sent)
                for seen in self.requests
                if seen.method == "GET"
                and seen.status in {200, 206}
                and "/api/" not in seen.path
            ]

    def asked_for(self):
        """The paths in repositories that were requested, in whatever way."""
        with self.lock:
            return {
                unquote(seen.path.split("/resolve/")[1].partition("/")[2])
                for seen in self.requests
                if "/resolve/" in seen.path
            }

    def fault_for(self, path):
        with self.lock:
            for fault in self.faults:
                if fault.part in path:
                    fault.spares -= 1
                    if fault.spares >= 0:
                        continue
                    if fault.times is not None:
                        fault.times -= 1
                        if not fault.times:
                            self.faults.remove(fault)
                    return fault
        return None


def is_large(path):
    return path.endswith(_LARGE)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage = False

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self):
        self.answer()

    def do_HEAD(self):
        self.answer()

    @property
    def hub(self):
        return self.server.hub

    def answer(self):
        authorization = self.headers.get("Authorization")
        self.seen = Seen(
            self.command,
            self.path,
            self.headers.get("Range"),
            authorization.removeprefix("Bearer ") if authorization else None,
            storage=self.storage,
        )
        with self.hub.lock:
            self.hub.requests.append(self.seen)
        self.fault = self.hub.fault_for(unquote(self.path))
        if self.fault is not None and self.fault.cut is None and self.fault.stall is None:
            time.sleep(self.fault.seconds)
        if self.fault is not None and self.fault.status is not None:
            self.refuse(self.fault.status, **self.fault.headers)
        else:
            self.serve()

    def refuse(self, status, code=None, **headers):
        if code:
            headers["X-Error-Code"] = code
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.send(status, json.dumps({"error": f"status {status}"}).encode(), headers)

    def send(self, status, body, headers, total=None):
        self.seen.status = status
        self.send_response(status)
        length = len(body) if total is None else total
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        fault = self.fault if status < 300 else None
        if fault is not None and fault.flip is not None and fault.flip < len(body):
            body = bytearray(body)
            body[fault.flip] ^= 1
        stop = len(body)
        if fault is not None:
            stop = min(stop, *(n for n in (fault.cut, fault.stall, stop) if n is not None))
        self.write(body[:stop])
        if fault is not None and fault.stall is not None:
            time.sleep(fault.seconds)
            self.write(body[stop:])
        elif stop < len(body):
            self.close_connection = True

    def write(self, data):
        self.seen.sent += len(data)  # before a client that has it all looks at the count
        self.wfile.write(data)
        self.wfile.flush()

    def send_content(self, content, headers):
        wanted = self.headers.get("Range")
        if not wanted or (self.fault is not None and self.fault.no_ranges):
            self.send(200, content, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(content), len(content))
        if start >= len(content):
            self.refuse(416, Content_Range=f"bytes */{len(content)}")
            return
        headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        self.send(206, content[start:end], headers)


class _Hub(_Handler):
    def serve(self):
        parts = urlsplit(self.path)
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        if words[:2] == ["api", "models"]:
            self.api("/".join(words[2:4]), words[4:], parse_qs(parts.query))
        elif "resolve" in words[2:3]:
            self.resolve("/".join(words[:2]), words[3], "/".join(words[4:]))
        elif words == ["api", "agent-harnesses"]:
            self.send_json({"standardEnvVars": [], "harnesses": {}})
        else:
            self.refuse(404)

    def allowed(self, name):
        """Answer as the Hub does for who may not see a repository; else give it."""
        token = self.seen.token
        if token not in {None, GOOD_TOKEN}:
            message = "Invalid credentials in Authorization header"
            self.refuse(401, X_Error_Message=message)
            return None
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and token is None):
            if token is None:
                self.refuse(401, X_Error_Message="Invalid username or password.")
            else:
                self.refuse(404, "RepoNotFound")
            return None
        return repository

    def api(self, name, rest, query):
        repository = self.allowed(name)
        if repository is None:
            return
        revision = rest[1] if len(rest) > 1 else "main"
        commit = repository.resolve(revision)
        if commit is None:
            self.refuse(404, "RevisionNotFound")
            return
        files = repository.commits[commit]
        if rest[:1] == ["tree"]:
            self.tree(files, query)
            return
        siblings = [{"rfilename": path} for path in sorted(files)]
        document = {"id": name, "modelId": name, "sha": commit, "siblings": siblings}
        self.send_json(document)

    def tree(self, files, query):
        entries = [_entry(path, content) for path, content in sorted(files.items())]
        start = int(query.get("cursor", ["0"])[0])
        end = start + self.hub.page
        headers = {}
        if end < len(entries):
            path = urlsplit(self.path).path
            link = f"{self.hub.url}{path}?recursive=true&cursor={end}"
            headers["Link"] = f'<{link}>; rel="next"'
        self.send_json(entries[start:end], headers)

    def resolve(self, name, revision, path):
        repository = self.allowed(name)
        if repository is None:
            return
        if repository.gated:
            self.refuse(403, "GatedRepo")
            return
        commit = repository.resolve(revision)
        if commit is None:
            self.refuse(404, "RevisionNotFound")
            return
        content = repository.commits[commit].get(path)
        headers = {"X-Repo-Commit": commit}
        if content is None:
            self.refuse(404, "EntryNotFound", X_Repo_Commit=commit)
        elif is_large(path):
            digest = sha256(content)
            headers["X-Linked-ETag"] = f'"{digest}"'
            headers["X-Linked-Size"] = str(len(content))
            headers["Location"] = f"{self.hub.storage_url}/{name}/{digest}/{path}?signature=x"
            self.send(302, b"", headers)
        else:
            headers["ETag"] = f'"{git_hash(content)}"'
            self.send_content(content, headers)

    def send_json(self, document, headers=None):
        body = json.dumps(document).encode()
        self.send(200, body, {"Content-Type": "application/json", **(headers or {})})


class _Storage(_Handler):
    storage = True

    def serve(self):
        organization, name, digest, *_ = self.path.lstrip("/").split("/")
        for files in self.hub.repositories[f"{organization}/{name}"].commits.values():
            for content in files.values():
                if sha256(content) == digest:
                    self.send_content(content, {"ETag": f'"{digest}"'})
                    return
        self.refuse(404)


def _entry(path, content):
    entry = {"type": "file", "path": path, "size": len(content), "oid": git_hash(content)}
    if is_large(path):
        entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
    return entry
