"""A scheduler and workers of Dask, each on a machine of its own where that is allowed.

A machine is a network namespace with its own address, behind a bridge; who may not make one
gets processes on the loopback.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.soak.harness import REPOSITORY

PORT = 8786
READY_SECONDS = 60


@dataclass(slots=True)
class Network:
    """Namespaces and a bridge between them; without the right to make them, the loopback."""

    count: int
    names: list[str] = field(default_factory=list)
    bridge: str = ""

    def __post_init__(self) -> None:
        number = os.getpid() % 250
        bridge = f"ingot{number}"
        try:
            self._ip("link", "add", "name", bridge, "type", "bridge")
        except (OSError, subprocess.CalledProcessError):
            return
        self.bridge = bridge
        self._ip("addr", "add", f"10.213.{number}.1/24", "dev", bridge)
        self._ip("link", "set", bridge, "up")
        for index in range(self.count):
            name, here, there = f"{bridge}-{index}", f"{bridge}h{index}", f"{bridge}t{index}"
            self._ip("netns", "add", name)
            self.names.append(name)
            self._ip("link", "add", here, "type", "veth", "peer", "name", there)
            self._ip("link", "set", here, "master", bridge, "up")
            self._ip("link", "set", there, "netns", name)
            inside = ("netns", "exec", name, "ip")
            self._ip(*inside, "addr", "add", f"{self.address(index)}/24", "dev", there)
            self._ip(*inside, "link", "set", there, "up")
            self._ip(*inside, "link", "set", "lo", "up")

    def address(self, index: int) -> str:
        """Return the address of one machine."""
        return f"10.213.{os.getpid() % 250}.{index + 2}" if self.bridge else "127.0.0.1"

    def on(self, index: int) -> list[str]:
        """Return what goes before a command that is to run on one machine."""
        return ["ip", "netns", "exec", self.names[index]] if self.bridge else []

    def close(self) -> None:
        """Remove namespaces and bridge."""
        for name in self.names:
            self._ip("netns", "del", name)
        if self.bridge:
            self._ip("link", "del", self.bridge)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(slots=True)
class Machines:
    """A scheduler and `count` workers with `threads` each. Use as a context manager."""

    scratch: Path
    count: int
    threads: int = 1
    network: Network = field(init=False)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0
    port: int = PORT

    def __enter__(self) -> Self:
        self.network = Network(self.count + 1)
        if not self.network.bridge:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.network.close()

    @property
    def address(self) -> str:
        """Return the address of the scheduler."""
        return f"tcp://{self.network.address(0)}:{self.port}"

    def start(self) -> None:
        """Start the scheduler, and all workers; wait for them."""
        host = self.network.address(0)
        words = ("--host", host, "--port", str(self.port), "--no-dashboard")
        log = self._start(0, "scheduler", *words)
        _wait_for(log, "Scheduler at:")
        logs = [self.start_worker(index) for index in range(1, self.count + 1)]
        for log in logs:
            _wait_for(log, "Registered to:")

    def start_worker(self, index: int) -> Path:
        """Start the worker of a machine; return its log."""
        host, threads = self.network.address(index), str(self.threads)
        words = (self.address, "--host", host, "--nthreads", threads, "--no-nanny")
        return self._start(
            index, "worker", *words, "--no-dashboard", "--local-directory", str(self.scratch)
        )

    def kill(self, index: int) -> None:
        """Kill the process of a machine; 0 is the scheduler's."""
        process = self.processes.pop(index)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Kill every process."""
        for index in list(self.processes):
            self.kill(index)

    def peak_memory(self) -> dict[int, int]:
        """Return the largest resident set in KiB of each process that runs."""
        found = {}
        for index, process in self.processes.items():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
                found[index] = int(status.partition("VmHWM:")[2].split()[0])
        return found

    def _start(self, index: int, *words: str) -> Path:
        self.started += 1
        log = self.scratch / f"{words[0]}-{index}-{self.started}.log"
        dask = shutil.which("dask", path=str(Path(sys.executable).parent)) or "dask"
        with log.open("wb") as file:
            self.processes[index] = subprocess.Popen(
                [*self.network.on(index), dask, *words],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return log


def _wait_for(log: Path, text: str) -> None:
    end = time.monotonic() + READY_SECONDS
    while text not in log.read_text("utf-8", "replace"):
        if time.monotonic() > end:
            raise TimeoutError(f"{log} does not say {text!r}")
        time.sleep(0.05)
