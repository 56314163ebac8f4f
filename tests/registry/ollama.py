"""A registry on loopback that speaks as Ollama's does to its own client, as far as that tells.

Written from what the client does (server/upload.go, server/auth.go and x/transfer of Ollama):
tokens for who signs the request with the user's key, uploads into a storage of another host,
parts whose MD5 is compared in the end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

HOST, STORAGE, TOKENS = "registry.ollama.ai", "storage.test", "ollama.com"
TOKEN = "t0ken"
EMPTY = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()


class OllamaServer:
    """All hosts behind one port; a proxy brings everybody here.

    Attributes:
        way: of uploads: `direct` into the storage, `parts` to the registry, or `redirect`ed.
        key: whose owner gets a token, as OpenSSH writes it in one line.
        log: method, host and path of each request, and its headers.
        failures: (method, host) -> how many of such requests are answered with 503 first.
    """

    def __init__(self, certificate, key):
        self.way, self.key, self.realm = "direct", key, f"https://{TOKENS}/token"
        self.blobs, self.manifests, self.uploads, self.stored = {}, {}, {}, {}
        self.log, self.failures, self.lock = [], {}, threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_name("key.pem"))
        listener = self._server.socket
        self._server.socket = context.wrap_socket(
            listener, server_side=True, do_handshake_on_connect=False
        )
        self._server.daemon_threads, self._server.block_on_close = True, False
        self._server.ollama = self
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def asked(self, method, host, part=""):
        with self.lock:
            return [h for m, o, p, h in self.log if m == method and o == host and part in p]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        ollama, host = self.server.ollama, self.headers["Host"].partition(":")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with ollama.lock:
            ollama.log.append((self.command, host, self.path, dict(self.headers.items())))
            if ollama.failures.get((self.command, host), 0):
                ollama.failures[self.command, host] -= 1
                self.send(503)
                return
        {HOST: self.registry, STORAGE: self.storage, TOKENS: self.tokens}[host](ollama, body)

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = answer  # noqa: N815 - the library's names

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def tokens(self, ollama, _):
        """Admit whoever signed this very request with the key."""
        public, _, signature = self.headers.get("Authorization", "").partition(":")
        own = ollama.key.split()[1]
        url = f"https://{TOKENS}{self.path}"
        query = parse_qs(urlsplit(self.path).query)
        key = serialization.load_ssh_public_key(ollama.key.encode())
        # As Go has sorted what it signs.
        is_good = public == own and list(query) == ["nonce", "scope", "service", "ts"]
        try:
            key.verify(base64.b64decode(signature), f"GET,{url},{EMPTY}".encode())
        except InvalidSignature:
            is_good = False
        if is_good:
            self.send(200, json.dumps({"token": TOKEN}).encode())
        else:
            self.send(401)

    def storage(self, ollama, body):
        """Take what has a signed address, and nobody who shows more than that."""
        if "Authorization" in self.headers or "signed=yes" not in self.path:
            self.send(400)
        elif ollama.way == "direct" and self.headers.get("X-Amz-Meta-Blob") != "signed":
            self.send(403)
        else:
            ollama.stored[urlsplit(self.path).path] = body
            self.send(200)

    def registry(self, ollama, body):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            scope = "repository:me/m:pull,push"
            said = f'Bearer realm="{ollama.realm}",service="{TOKENS}",scope="{scope}"'
            self.send(401, WWW_Authenticate=said)
            return
        parts = urlsplit(self.path)
        kind = "uploads" if "/uploads/" in parts.path else parts.path.split("/")[4]
        getattr(self, kind)(ollama, parts, body)

    def blobs(self, ollama, parts, _):
        data = ollama.blobs.get(parts.path.rpartition("/")[2])
        self.send(404) if data is None else self.send(200, data)

    def manifests(self, ollama, parts, body):
        if self.command == "PUT":
            ollama.manifests[parts.path.rpartition("/")[2]] = body
            self.send(201)
        elif (data := ollama.manifests.get(parts.path.rpartition("/")[2])) is None:
            self.send(404)
        else:
            kind = "application/vnd.docker.distribution.manifest.v2+json"
            self.send(200, data, Content_Type=kind)

    def uploads(self, ollama, parts, body):
        query = parse_qs(parts.query)
        if self.command == "POST" and "mount" in query:
            self.send(202, Location="/v2/me/m/blobs/uploads/unused")
            return
        if self.command == "POST":
            digest = query["digest"][0]
            assert self.headers["X-Redirect-Uploads"] == "2"
            with ollama.lock:
                number = str(len(ollama.uploads))
                ollama.uploads[number] = (digest, {})
            more = {}
            if ollama.way == "direct":
                address = f"https://{STORAGE}/{number}?signed=yes"
                more = {
                    "X_Direct_Upload_URL": address,
                    "X_Signed_Header_X_Amz_Meta_Blob": "signed",
                }
            place = f"/v2/me/m/blobs/uploads/{number}?state=0"
            self.send(202, Docker_Upload_Location=place, Location="/nowhere", **more)
            return
        number = parts.path.rpartition("/")[2]
        digest, pieces = ollama.uploads[number]
        if self.command == "PATCH":
            assert self.headers["X-Redirect-Uploads"] == "1"
            count = int(query["state"][0])  # a part may come a second time
            place = f"/v2/me/m/blobs/uploads/{number}?state={count + 1}"
            if ollama.way == "redirect":
                where = f"/{number}/{count}"
                pieces[count] = where
                address = f"https://{STORAGE}{where}?signed=yes"
                self.send(307, Docker_Upload_Location=place, Location=address)
            else:
                pieces[count] = body
                self.send(202, Docker_Upload_Location=place)
            return
        if ollama.way == "direct":
            pieces = {0: f"/{number}"}
        pieces = [
            ollama.stored[one] if isinstance(one, str) else one
            for _, one in sorted(pieces.items())
        ]
        hashes = b"".join(hashlib.md5(one).digest() for one in pieces)
        etag = f"{hashlib.md5(hashes).hexdigest()}-{len(pieces)}"
        data = b"".join(pieces)
        is_good = digest == query["digest"][0] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        if is_good and (ollama.way == "direct" or query["etag"] == [etag]):
            ollama.blobs[digest] = data
            self.send(201)
        else:
            self.send(400)
