"""A registry on loopback that can misbehave: OCI distribution 1.1, as far as clients look.

Uploads go on where they broke when `keeps_parts` is set; without it they are lost, as those of
docker-registry 2.8 are.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD = "anna", "s3cret:with-colon"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dataclass
class Fault:
    """What goes wrong with requests of a method whose path has a part in it.

    Attributes:
        status: answered instead, with a body.
        headers: sent with it, or instead of those of an answer.
        cut: bytes of the answer's body after which the connection ends.
        stop: bytes of the request's body after which the connection ends.
        flip: the byte of the answer's body that arrives changed.
        spares: the first requests of this kind, which go right.
        times: that it happens; for ever when None.
    """

    method: str
    part: str
    status: int | None = None
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    cut: int | None = None
    stop: int | None = None
    flip: int | None = None
    spares: int = 0
    times: int | None = 1


@dataclass
class Seen:
    """A request, and how many bytes of bodies went each way."""

    method: str
    path: str
    headers: dict
    received: int = 0
    sent: int = 0
    status: int = 0


class RegistryServer:
    """The registry, an authorization server, and a storage of another origin.

    Attributes:
        auth: `none`, `basic` or `bearer`.
        redirects: whether blobs are fetched from the storage.
    """

    def __init__(self):
        self.blobs, self.manifests, self.uploads, self.tokens = {}, {}, {}, {}
        self.faults, self.requests, self.begun = [], [], 0
        self.auth, self.redirects, self.keeps_parts = "none", False, True
        self.lock = threading.Lock()
        self._servers = [self._start(kind) for kind in (_Registry, _Storage, _Tokens)]
        self.host, self.storage_host, self.token_host = (
            f"127.0.0.1:{one.server_address[1]}" for one in self._servers
        )

    def _start(self, handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads, server.block_on_close, server.registry = True, False, self
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def stop(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers = []

    def fault_for(self, method, path):
        with self.lock:
            for fault in self.faults:
                if fault.method == method and fault.part in path:
                    fault.spares -= 1
                    if fault.spares >= 0:
                        continue
                    if fault.times is not None:
                        fault.times -= 1
                        if not fault.times:
                            self.faults.remove(fault)
                    return fault
        return None

    def asked(self, method, part=""):
        """The requests of a method whose path has a part in it."""
        with self.lock:
            return [one for one in self.requests if one.method == method and part in one.path]

    def forget(self):
        with self.lock:
            self.requests.clear()


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class _CutError(ConnectionError):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):
            super().handle()

    @property
    def registry(self):
        return self.server.registry

    def answer(self):
        self.seen = Seen(self.command, self.path, dict(self.headers.items()))
        with self.registry.lock:
            self.registry.requests.append(self.seen)
        self.fault = self.registry.fault_for(self.command, self.path)
        try:
            if self.fault is not None and self.fault.status is not None:
                self.body()
                self.send(self.fault.status, self.fault.body or self._error())
            else:
                self.serve()
        except _CutError:
            self.close_connection = True

    def do_GET(self):
        self.answer()

    do_HEAD = do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 - the library's names

    def _error(self):
        return json.dumps({"errors": [{"code": "FAULT", "message": "as wanted"}]}).encode()

    def body(self, keep=len):
        """Read the body of the request; `keep` gets what has come, even of one cut short."""
        length = int(self.headers.get("Content-Length") or 0)
        stop = self.fault.stop if self.fault is not None else None
        data = bytearray()
        while len(data) < length:
            piece = self.rfile.read1(min(65536, length - len(data)))
            if not piece:
                break
            data += piece
            if stop is not None and len(data) >= stop:
                del data[stop:]
                break
        self.seen.received = len(data)
        if len(data) < length:
            keep(bytes(data))
            raise _CutError
        return bytes(data)

    def send(self, status, body=b"", headers=()):
        self.seen.status = status
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), **dict(headers)}
        if self.fault is not None:
            headers |= self.fault.headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD" or status == 204:
            return
        fault = self.fault if status < 300 else None
        if fault is not None and fault.flip is not None:
            body = bytearray(body)
            body[fault.flip] ^= 1
        end = len(body)
        if fault is not None and fault.cut is not None:
            end = min(end, fault.cut)
        self.seen.sent = end  # before a client that has it all looks at the count
        self.wfile.write(body[:end])
        self.wfile.flush()
        if end < len(body):
            raise _CutError

    def send_content(self, content, headers=()):
        wanted = self.headers.get("Range")
        if not wanted:
            self.send(200, content, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(content), len(content))
        said = {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}", **dict(headers)}
        self.send(206, content[start:end], said)


class _Registry(_Handler):
    def serve(self):
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if not self.allowed():
            self.body()
            challenge = (
                'Basic realm="the tests"'
                if self.registry.auth == "basic"
                else f'Bearer realm="http://{self.registry.token_host}/token",service="tests"'
            )
            self.send(401, self._error(), {"WWW-Authenticate": challenge})
            return
        words = parts.path.strip("/").split("/")
        if words == ["v2"]:
            self.send(200, b"{}")
        elif words[-2] == "manifests":
            self.manifest("/".join(words[1:-2]), words[-1])
        elif words[-2] == "uploads" or words[-1] == "uploads":
            upload = words[-1] if words[-2] == "uploads" else ""
            cut = words.index("blobs")
            self.upload("/".join(words[1:cut]), upload, query)
        else:
            self.blob("/".join(words[1:-2]), words[-1])

    def allowed(self):
        said = self.headers.get("Authorization", "")
        if self.registry.auth == "basic":
            return said == BASIC
        if self.registry.auth == "bearer":
            return said.removeprefix("Bearer ") in self.registry.tokens
        return True

    def manifest(self, repository, tag):
        key = repository, tag
        if self.command == "PUT":
            data = self.body()
            kind = self.headers["Content-Type"]
            document = json.loads(data)
            lacking = [
                one["digest"]
                for one in [document["config"], *document["layers"]]
                if (repository, one["digest"]) not in self.registry.blobs
            ]
            if lacking:
                self.send(404, self._error())
                return
            self.registry.manifests[key] = kind, data
            self.registry.manifests[repository, digest_of(data)] = kind, data
            self.send(201, b"", {"Docker-Content-Digest": digest_of(data)})
        elif key not in self.registry.manifests:
            self.send(404, self._error())
        else:
            kind, data = self.registry.manifests[key]
            self.send(
                200, data, {"Content-Type": kind, "Docker-Content-Digest": digest_of(data)}
            )

    def blob(self, repository, digest):
        content = self.registry.blobs.get((repository, digest))
        if content is None:
            self.send(404, self._error())
        elif self.registry.redirects and self.command == "GET":
            place = f"http://{self.registry.storage_host}/{digest}?signature=x"
            self.send(307, b"", {"Location": place})
        else:
            self.send_content(content, {"Docker-Content-Digest": digest})

    def upload(self, repository, upload, query):
        uploads = self.registry.uploads
        if self.command == "POST":
            self.body()
            mounted = self.registry.blobs.get((query.get("from"), query.get("mount")))
            if mounted is not None:
                self.registry.blobs[repository, query["mount"]] = mounted
                self.send(201, b"", {"Docker-Content-Digest": query["mount"]})
                return
            with self.registry.lock:
                self.registry.begun += 1
                upload = str(self.registry.begun)
                uploads[upload] = b""
            self.send(202, b"", {"Location": self.location(repository, upload)})
        elif upload not in uploads:
            self.body()
            self.send(404, self._error())
        elif self.command == "GET":
            self.send_state(204, repository, upload)
        elif self.command == "PATCH":
            self.patch(repository, upload)
        else:
            self.complete(repository, upload, query["digest"])

    def patch(self, repository, upload):
        def keep(data):
            if self.registry.keeps_parts:
                self.registry.uploads[upload] += data
            else:
                del self.registry.uploads[upload]

        have = len(self.registry.uploads[upload])
        start = int(self.headers["Content-Range"].partition("-")[0])
        data = self.body(keep)
        if start != have:
            self.send(416, self._error())
            return
        self.registry.uploads[upload] += data
        self.send_state(202, repository, upload)

    def complete(self, repository, upload, digest):
        data = self.registry.uploads.pop(upload) + self.body()
        if digest_of(data) != digest:
            body = json.dumps({"errors": [{"code": "DIGEST_INVALID", "message": "no"}]})
            self.send(400, body.encode())
            return
        self.registry.blobs[repository, digest] = data
        self.send(201, b"", {"Docker-Content-Digest": digest})

    def send_state(self, status, repository, upload):
        have = len(self.registry.uploads[upload])
        headers = {"Range": f"0-{max(have - 1, 0)}"}
        self.send(status, b"", {"Location": self.location(repository, upload), **headers})

    def location(self, repository, upload):
        return f"/v2/{repository}/blobs/uploads/{upload}?_state={time.monotonic_ns()}"


class _Storage(_Handler):
    def serve(self):
        digest = urlsplit(self.path).path.lstrip("/")
        for (_, name), content in self.registry.blobs.items():
            if name == digest:
                self.send_content(content)
                return
        self.send(404)


class _Tokens(_Handler):
    def serve(self):
        form = self.body().decode()
        said = self.headers.get("Authorization")
        if said not in {None, BASIC} or (form and "refresh_token=identity" not in form):
            self.send(401, self._error())
            return
        token = f"token-{len(self.registry.tokens)}"
        self.registry.tokens[token] = self.path + form
        self.send(200, json.dumps({"token": token, "expires_in": 300}).encode())
