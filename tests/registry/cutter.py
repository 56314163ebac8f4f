"""Connections to a port of this machine that are cut now and then, at any byte."""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import struct
import threading
from collections.abc import Sequence
from typing import Self

_CHUNK = 16 << 10
_RESET = struct.pack("ii", 1, 0)
_SECONDS = 30.0


class Cutter:
    """Passes bytes on, and ends the connection over which the next cut's byte came.

    Attributes:
        port: to connect to.
        target: the port that bytes go to.
        cuts: that were made.
    """

    def __init__(self, target: int, gaps: Sequence[int]) -> None:
        """Pass on to `target`; `gaps` are the bytes between two cuts, both ways together."""
        self.target, self.cuts = target, 0
        self._gaps = list(gaps)
        self._left = self._gaps.pop(0) if self._gaps else -1
        self._mutex = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.cutter = self
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def admitted(self, nbytes: int) -> int:
        """Return how many of the next bytes pass before the connection is cut."""
        with self._mutex:
            if self._left < 0 or nbytes <= self._left:
                self._left -= nbytes if self._left >= 0 else 0
                return nbytes
            admitted, self.cuts = self._left, self.cuts + 1
            self._left = self._gaps.pop(0) if self._gaps else -1
            return admitted


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, block_on_close = True, False
    cutter: Cutter


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        cutter = self.server.cutter
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", cutter.target)) as there,
        ):
            ends = (self.request, there)
            while ready := select.select(ends, (), (), _SECONDS)[0]:
                for source in ready:
                    data = source.recv(_CHUNK)
                    admitted = cutter.admitted(len(data))
                    (there if source is self.request else self.request).sendall(data[:admitted])
                    if admitted < len(data):
                        for end in ends:  # a reset, as when a cable is pulled
                            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    if admitted < len(data) or not data:
                        return
