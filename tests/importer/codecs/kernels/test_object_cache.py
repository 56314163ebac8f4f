"""Kernels are compiled once, in a cache that processes share; without them numpy works."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from importer.codecs.base import Operation
from importer.codecs.grouped import GroupKernel
from importer.codecs.kernels import object_cache
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY, prepare
from importer.codecs.spec import QUANT_TYPES

ROOT = Path(__file__).parents[4]
MUCH = 1 << 40
INT4 = codec_for(QUANT_TYPES["int4"], "BF16")
(ENCODE,) = INT4.kernels(Operation.ENCODE)
WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None"
BROKEN_NUMBA = """
import sys
class Broken:
    def find_spec(self, name, path, target=None):
        if name == "numba.core":
            raise ImportError("Numba needs NumPy 2.3 or less")
sys.meta_path.insert(0, Broken())
"""
SCRIPT = """
import hashlib, json, sys
import numpy as np
from importer.codecs.base import Operation
from importer.codecs.registry import codec_for
from importer.codecs.runtime import prepare
from importer.codecs.spec import QUANT_TYPES

compiled = []
codec = codec_for(QUANT_TYPES["int4"], "BF16")
(kernel,) = codec.kernels(Operation.ENCODE)
runtime = prepare({kernel: 1 << 40}, lambda: compiled.append(1))
rows = np.arange(1 << 14, dtype=np.uint16) & np.uint16(0xBFFF)
parts = codec.encode(rows.data.cast("B"), runtime).parts
digest = hashlib.sha256(b"".join(parts)).hexdigest()
report = {"problem": runtime.problem, "compiled": len(compiled), "digest": digest}
report |= {"kernel": runtime.kernel(kernel) is not None}
print(json.dumps(report | {"numba": sys.modules.get("numba") is not None}))
"""
FOUND = {"problem": None, "compiled": 0, "kernel": True, "numba": False}
"""What a process reports that has its kernel, besides what it made: it never needs numba."""


def start(script, **environment):
    """Run a script in a new process that sees this source tree."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG"))}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env=variables | {key: str(value) for key, value in environment.items()},
        stdout=subprocess.PIPE,
        text=True,
    )


def report(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out)


def kept_in(cache_home):
    """Everything in a cache."""
    return [path for path in cache_home.rglob("*") if path.is_file()]


def place_of(path, monkeypatch):
    """The place of a file."""
    monkeypatch.setattr(object_cache, "_used", lambda: path.parent)
    place = object_cache.Place("affine.encode", "any")
    place._path = path
    return place


@pytest.fixture(scope="module")
def digest():
    """What every process must make, by numpy here."""
    rows = np.arange(1 << 14, dtype=np.uint16) & np.uint16(0xBFFF)
    parts = INT4.encode(rows.data.cast("B"), NUMPY).parts
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.fixture
def needs_numba():
    pytest.importorskip("numba")


def test_planning_imports_no_arithmetic():
    process = start(
        "import json, sys\n"
        "from importer.codecs.base import Operation\n"
        "from importer.codecs.plain import Plain\n"
        "from importer.codecs.registry import codec_for, transcoder_for\n"
        "from importer.codecs.runtime import NUMPY, prepare\n"
        "from importer.codecs.spec import QUANT_TYPES, FloatType\n"
        "codec = codec_for(QUANT_TYPES['int4'], 'BF16')\n"
        "for target in (None, FloatType('F16'), *QUANT_TYPES.values()):\n"
        "    made = transcoder_for(target, Plain('BF16'))\n"
        "    made.parts((8, 64)), made.unit((8, 64)), made.spans((8, 64), range(64, 128))\n"
        "    runtime = prepare(dict.fromkeys(made.kernels(), 1 << 20), print)\n"
        "    assert runtime is NUMPY\n"
        "made = transcoder_for(QUANT_TYPES['int8'], codec)\n"
        "made.parts((8, 64)), made.unit((8, 64)), made.spans((8, 64), range(64, 128))\n"
        "print(json.dumps([m for m in ('numpy', 'numba', 'llvmlite') if m in sys.modules]))"
    )

    assert report(process) == []


@pytest.mark.usefixtures("needs_numba")
def test_two_cold_processes_share_a_cache(tmp_path, digest):
    first, second = (start(SCRIPT, XDG_CACHE_HOME=tmp_path) for _ in range(2))
    reports = [report(first), report(second)]
    third = report(start(SCRIPT, XDG_CACHE_HOME=tmp_path))

    for one in (*reports, third):
        assert (one["problem"], one["kernel"], one["digest"]) == (None, True, digest)
    assert max(one["compiled"] for one in reports) == 1
    assert third == FOUND | {"digest": digest}
    assert [path.name for path in tmp_path.iterdir()] == ["ingot"]


@pytest.mark.usefixtures("needs_numba")
def test_numba_may_have_been_imported_before(tmp_path, digest):
    made = report(start(f"import numba\n{SCRIPT}", XDG_CACHE_HOME=tmp_path))

    assert (made["digest"], made["compiled"]) == (digest, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["ingot"]


@pytest.mark.usefixtures("needs_numba")
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, digest):
    # A file is in the way, also for root.
    blocked = tmp_path / "cache"
    blocked.write_text("")

    made = report(start(SCRIPT, XDG_CACHE_HOME=blocked, HOME=blocked))

    assert made == FOUND | {"compiled": 1, "digest": digest}


@pytest.mark.usefixtures("needs_numba")
def test_a_full_disk_costs_only_the_next_process(tmp_path, digest):
    script = (
        "import os\n"
        "def full(*args): raise OSError(28, 'No space left on device')\n"
        "os.replace = full\n" + SCRIPT
    )

    made = report(start(script, XDG_CACHE_HOME=tmp_path))

    assert made == FOUND | {"compiled": 1, "digest": digest}
    assert kept_in(tmp_path) == []


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Where the kernel of the script is kept."""
    pytest.importorskip("numba")
    path = tmp_path_factory.mktemp("warm")
    assert report(start(SCRIPT, XDG_CACHE_HOME=path))["compiled"] == 1
    return path


@pytest.fixture
def warm_copy(warm, tmp_path):
    """A cache to be spoilt."""
    return shutil.copytree(warm, tmp_path / "warm")


@pytest.mark.parametrize(
    "refuse", ["", WITHOUT_NUMBA, BROKEN_NUMBA], ids=["", "none", "broken"]
)
def test_a_filled_cache_needs_no_numba(refuse, warm, digest):
    made = report(start(f"{refuse}\n{SCRIPT}", XDG_CACHE_HOME=warm))

    assert made == FOUND | {"digest": digest}


def test_a_little_work_takes_a_kernel_that_is_kept_and_has_none_compiled(
    warm, tmp_path, digest
):
    script = SCRIPT.replace("1 << 40", "20 << 20")

    kept, not_kept = (report(start(script, XDG_CACHE_HOME=path)) for path in (warm, tmp_path))

    assert kept == FOUND | {"digest": digest}
    assert not_kept == FOUND | {"kernel": False, "digest": digest}
    assert kept_in(tmp_path) == []


@pytest.mark.parametrize("place", ["ingot", "kernels"])
@pytest.mark.usefixtures("needs_numba")
def test_code_that_others_could_have_put_there_is_not_run(place, warm_copy, digest):
    (kernels_of,) = warm_copy.glob("ingot/kernels-*")
    (kernels_of if place == "kernels" else kernels_of.parent).chmod(0o775)

    made = report(start(SCRIPT, XDG_CACHE_HOME=warm_copy))

    assert made == FOUND | {"compiled": 1, "digest": digest}


def test_nobody_else_may_write_the_cache(warm):
    (kernels_of,) = warm.glob("ingot/kernels-*")

    modes = {path.stat().st_mode & 0o777 for path in (kernels_of, kernels_of.parent)}
    assert modes == {0o700}


def test_a_cache_that_may_only_be_read_is_used(warm_copy, digest):
    script = (
        "import os, tempfile\n"
        "def refuse(*args, **kwargs): raise PermissionError(13, 'refused')\n"
        "os.utime = os.replace = os.mkdir = tempfile.mkstemp = refuse\n" + SCRIPT
    )

    assert report(start(script, XDG_CACHE_HOME=warm_copy)) == FOUND | {"digest": digest}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda kept: kept[:20],
        lambda kept: kept[:-1],
        lambda kept: kept + b"\0",
        lambda kept: bytes([kept[0] ^ 1]) + kept[1:],
        lambda kept: kept[:5000] + bytes([kept[5000] ^ 8]) + kept[5001:],
    ],
    ids=["empty", "head", "torn", "longer", "digest", "flipped"],
)
def test_what_is_damaged_is_not_run(spoil, warm_copy, monkeypatch):
    (path,) = kept_in(warm_copy)
    place = place_of(path, monkeypatch)
    whole = place.read()
    assert whole[:4] in {b"\x7fELF", b"\xcf\xfa\xed\xfe"}

    path.write_bytes(spoil(path.read_bytes()))

    assert place.read() is None
    place.write(whole)
    assert place.read() == whole
    assert kept_in(warm_copy) == [path]


def test_what_is_damaged_is_compiled_again(warm_copy, digest):
    (path,) = kept_in(warm_copy)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])

    made = report(start(SCRIPT, XDG_CACHE_HOME=warm_copy))

    assert made == FOUND | {"compiled": 1, "digest": digest}
    assert len(path.read_bytes()) == len(whole)


def test_what_another_numba_compiled_is_compiled_again(warm_copy, monkeypatch):
    place = place_of(*kept_in(warm_copy), monkeypatch)
    monkeypatch.setattr(object_cache, "_compiler", lambda: "numba-0.1.dist-info")

    assert place.read() is None
    place.write(b"code")
    assert place.read() == b"code"


def test_the_installed_numba_is_named():
    pytest.importorskip("numba")
    version = importlib.metadata.version("numba")

    assert object_cache._compiler() == f"numba-{version}.dist-info"


def test_other_machines_code_is_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(object_cache, "_used", lambda: tmp_path)
    here, there = (object_cache.Place("affine.encode", cpu) for cpu in ("znver5", "haswell"))
    here.write(b"here")
    there.write(b"there")

    assert (here.read(), there.read()) == (b"here", b"there")


@pytest.mark.parametrize("missing", ["numba", "llvmlite"])
def test_without_a_compiler_there_is_numpy(missing, tmp_path, digest):
    # In the way of the process that compiles, too.
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError({missing!r})")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}"

    made = report(start(script, XDG_CACHE_HOME=tmp_path))

    assert (made["kernel"], made["digest"]) == (False, digest)
    assert made["problem"].startswith("ModuleNotFoundError")
    assert missing in made["problem"]


def test_with_a_broken_numba_there_is_numpy(monkeypatch, digest):
    def broken(_):
        raise ImportError("Numba needs NumPy 2.3 or less\nand says more")

    monkeypatch.setattr(GroupKernel, "load", broken)

    runtime = prepare({ENCODE: MUCH}, lambda: pytest.fail("compiled"))

    assert runtime.problem == "ImportError: Numba needs NumPy 2.3 or less"
    rows = np.arange(1 << 14, dtype=np.uint16) & np.uint16(0xBFFF)
    parts = INT4.encode(rows.data.cast("B"), runtime).parts
    assert hashlib.sha256(b"".join(parts)).hexdigest() == digest


def test_a_user_without_a_home_has_no_cache_directory(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/void")

    assert object_cache.directory() is None


DAY = 24 * 3600


def make_cache(parent, name, days=0):
    """Make a cache that was last used some days ago."""
    path = parent / "ingot" / name
    path.mkdir(parents=True)
    (path / "affine.encode.o").write_bytes(b"")
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


@pytest.mark.usefixtures("needs_numba")
def test_caches_that_nobody_used_for_long_go_when_a_new_one_is_made(tmp_path):
    old = make_cache(tmp_path, "kernels-0123456789abcdef", days=31)
    recent = make_cache(tmp_path, "kernels-fedcba9876543210", days=29)
    foreign = make_cache(tmp_path, "kernels-of-others", days=1000)

    report(start(SCRIPT, XDG_CACHE_HOME=tmp_path))

    (mine,) = set((tmp_path / "ingot").iterdir()) - {old, recent, foreign}
    assert re.fullmatch("kernels-[0-9a-f]{16}", mine.name)
    assert [path.exists() for path in (old, recent, foreign)] == [False, True, True]


def test_a_cache_that_is_used_is_as_young_as_its_last_use(tmp_path):
    mine = make_cache(tmp_path, "kernels-0123456789abcdef", days=1000)
    other = make_cache(tmp_path, "kernels-fedcba9876543210", days=1000)

    object_cache.use(mine)

    assert time.time() - mine.stat().st_mtime < DAY
    assert other.exists()


def test_a_link_is_not_followed_when_caches_are_removed(tmp_path):
    precious = make_cache(tmp_path / "precious", "kernels-0123456789abcdef", days=1000)
    (tmp_path / "ingot").mkdir()
    link = tmp_path / "ingot" / "kernels-0123456789abcdef"
    link.symlink_to(precious)
    os.utime(link, (0, 0), follow_symlinks=False)

    object_cache.use(tmp_path / "ingot" / "kernels-new")

    assert (precious / "affine.encode.o").exists()


@pytest.mark.parametrize("parent", ["none", "file"])
def test_a_cache_that_cannot_be_looked_into_is_left_alone(tmp_path, parent):
    (tmp_path / "file").write_text("")

    object_cache.use(tmp_path / parent / "kernels-0123456789abcdef")

    assert [path.name for path in tmp_path.iterdir()] == ["file"]
