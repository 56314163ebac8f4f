"""docker-registry itself, on loopback: plain, or with TLS and passwords; and a proxy."""

from __future__ import annotations

import base64
import contextlib
import json
import select
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.registry.server import PASSWORD, USER

HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuuIRNOPg51z5ET/i9COFSTpAout3SUOMq\n"
"""bcrypt, of the password in `tests.registry.server`."""
NAME = "registry.test"
"""Stands in the certificate, and in no DNS: only a proxy knows where that is."""
READY_SECONDS = 20


def why_not():
    """Why docker-registry cannot be run with TLS here, or None."""
    missing = [name for name in ("docker-registry", "openssl") if shutil.which(name) is None]
    return f"{missing[0]} is not installed" if missing else None


def free_port(family=socket.AF_INET, host="127.0.0.1"):
    """A port of loopback that nobody has now."""
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        return taken.getsockname()[1]


def make_certificate(directory):
    """Write `cert.pem`, which is trusted where it is named, and `key.pem`; give the first."""
    others = "DNS:registry.ollama.ai,DNS:ollama.com,DNS:storage.test"
    names = f"DNS:{NAME},DNS:localhost,IP:127.0.0.1,IP:::1,{others}"
    paths = directory / "key.pem", directory / "cert.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(paths[0]), "-out", str(paths[1]), "-days", "30")
    names = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName={names}")
    command = ["openssl", "req", "-x509", *kind, *files, *names]
    subprocess.run(command, check=True, capture_output=True)
    return paths[1]


@dataclass
class DockerRegistry:
    """A docker-registry that can be killed and started again. Use as a context manager.

    Attributes:
        scratch: for its storage, configuration and log.
        certificate: made by `make_certificate`, for TLS and passwords; None for neither.
        address: of loopback.
    """

    scratch: Path
    certificate: Path | None = None
    address: str = "127.0.0.1"
    process: subprocess.Popen | None = None
    port: int = 0
    root: Path = field(init=False)

    def __enter__(self) -> Self:
        self.root = self.scratch / "storage"
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        self.port = free_port(family, self.address)
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def host(self):
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    def start(self):
        """Start it, and wait until it answers."""
        http = {"addr": self.host}
        config = {
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self.root)}},
            "http": http,
        }
        if self.certificate is not None:
            key = self.certificate.with_name("key.pem")
            http["tls"] = {"certificate": str(self.certificate), "key": str(key)}
            users = self.scratch / "htpasswd"
            users.write_text(HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(users)}}
        path = self.scratch / "registry.yml"
        path.write_text(json.dumps(config))  # which is YAML, too
        with (self.scratch / "registry.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["docker-registry", "serve", str(path)], stdout=log, stderr=log
            )
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((self.address, self.port), 1),
            ):
                return
            time.sleep(0.02)
        raise TimeoutError((self.scratch / "registry.log").read_text("utf-8", "replace"))

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def log_in(directory, *hosts, password=PASSWORD):
    """Write Docker's configuration with the password for some hosts."""
    directory.mkdir(exist_ok=True)
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    auths = {host: {"auth": auth} for host in hosts}
    (directory / "config.json").write_text(json.dumps({"auths": auths}))


class Proxy:
    """An HTTP proxy on loopback that takes every name to one port of this machine.

    Attributes:
        target: where everything goes.
        login: `user:password` that it wants, or empty.
        asked: method and target of each request.
    """

    def __init__(self, target, login=""):
        self.target, self.login, self.asked = target, login, []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _ProxyHandler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self._server.proxy = self
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self):
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _is_admitted(self):
        proxy = self.server.proxy
        proxy.asked.append((self.command, self.path))
        wanted = "Basic " + base64.b64encode(proxy.login.encode()).decode()
        if not proxy.login or self.headers.get("Proxy-Authorization") == wanted:
            return True
        self.send_response(407)
        self.send_header("Proxy-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def do_CONNECT(self):
        if not self._is_admitted():
            return
        with socket.create_connection(self.server.proxy.target) as there:
            self.send_response(200)
            self.end_headers()
            _relay(self.connection, there)
        self.close_connection = True

    def do_GET(self):
        """Pass a plain request on, as it is but for its address."""
        if not self._is_admitted():
            return
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        line = f"{self.command} {parts._replace(scheme='', netloc='').geturl()} HTTP/1.1\r\n"
        hop = {"connection", "proxy-authorization", "proxy-connection"}
        kept = "".join(f"{k}: {v}\r\n" for k, v in self.headers.items() if k.lower() not in hop)
        with socket.create_connection(self.server.proxy.target) as there:
            there.sendall(f"{line}{kept}Connection: close\r\n\r\n".encode())
            there.sendall(self.rfile.read(length))
            while data := there.recv(65536):
                self.wfile.write(data)
        self.close_connection = True

    do_HEAD = do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 - the library's names


def _relay(one, other):
    while True:
        ready, _, _ = select.select([one, other], [], [], 30)
        if not ready:
            return
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)
