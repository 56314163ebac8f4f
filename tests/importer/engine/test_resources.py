"""Threads follow from cores and memory, also inside a container."""

from __future__ import annotations

import os
import resource

import pytest

from importer.engine import resources
from importer.engine.resources import (
    PER_THREAD,
    PLAIN_BASE,
    QUANTIZING_BASE,
    affordable,
    cores,
    memory,
)
from store.errors import UsageError
from tests.importer.builders import write

HERE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
GIB = 1 << 30


@pytest.fixture
def group(tmp_path):
    """A function that makes control groups: what /proc says, and files below the mount."""

    def make(proc, files):
        write(
            tmp_path, {"proc": proc, **{f"mount/{path}": text for path, text in files.items()}}
        )
        return tmp_path / "proc", tmp_path / "mount"

    return make


@pytest.fixture
def many_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)


V1 = "4:memory:/a\n2:cpu,cpuacct:/a\n"
QUOTAS = {
    "none": ("0::/\n", {}, 64),
    "no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
    "two cores": ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
    "a part of a core more": ("0::/a\n", {"a/cpu.max": "210000 100000\n"}, 3),
    "half a core": ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
    "of the group above": ("0::/a/b\n", {"a/cpu.max": "400000 100000\n"}, 4),
    "the least": (
        "0::/a/b\n",
        {"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "800000 100000\n"},
        4,
    ),
    "of another mount": ("0::/host/path\n", {"cpu.max": "300000 100000\n"}, 3),
    "version 1": (
        V1,
        {
            "cpu,cpuacct/a/cpu.cfs_quota_us": "150000\n",
            "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "version 1 without": (
        V1,
        {
            "cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
        },
        64,
    ),
    "nonsense": ("0::/\nx\n::::\n", {"cpu.max": "all of it\xe9"}, 64),
    "a path that is none": ("0::/a\0b\n", {"cpu.max": "200000 100000\n"}, 2),
    "no number that fits": ("0::/\n", {"cpu.max": f"{'9' * 5000} 100000\n"}, 64),
    "zeros": ("0::/\n", {"cpu.max": "0 0\n"}, 64),
}


@pytest.mark.usefixtures("many_cores")
@pytest.mark.parametrize(("proc", "files", "expected"), QUOTAS.values(), ids=QUOTAS)
def test_a_quota_counts_as_cores(group, proc, files, expected):
    assert cores(*group(proc, files)) == expected


def test_a_quota_is_no_more_than_there_is(group):
    assert cores(*group("0::/\n", {"cpu.max": "99900000 100000\n"})) == HERE


def test_without_control_groups_there_are_cores_and_memory(tmp_path):
    assert cores(tmp_path / "none", tmp_path) == HERE
    assert memory(tmp_path / "none", tmp_path) > 0


@pytest.mark.parametrize(
    ("proc", "files"),
    [
        ("0::/a\n", {"a/memory.max": f"{GIB // 8}\n"}),
        ("0::/a/b\n", {"a/memory.max": f"{GIB // 8}\n", "a/b/memory.max": "max\n"}),
        ("0::/\n", {"memory.high": f"{GIB // 8}\n", "memory.max": f"{GIB // 4}\n"}),
        (V1, {"memory/a/memory.limit_in_bytes": f"{GIB // 8}\n"}),
    ],
)
def test_a_limit_of_memory_counts(group, proc, files):
    assert memory(*group(proc, files)) == GIB // 8


def test_a_limit_of_memory_that_is_no_number_counts_not(group, tmp_path):
    there = memory(tmp_path / "none", tmp_path)

    assert memory(*group("0::/\n", {"memory.max": "9" * 5000})) == there


@pytest.mark.parametrize(
    ("limit", "quantizes", "expected"),
    [
        (PLAIN_BASE + PER_THREAD, False, 1),
        (PLAIN_BASE + 4 * PER_THREAD - 1, False, 3),
        (QUANTIZING_BASE + 4 * PER_THREAD, True, 4),
        (GIB, True, 8),
    ],
)
def test_threads_are_as_many_as_fit(limit, quantizes, expected):
    assert affordable(8, limit, quantizes=quantizes) == expected


@pytest.mark.parametrize("quantizes", [False, True])
def test_a_limit_that_is_too_small_is_refused(quantizes):
    base = QUANTIZING_BASE if quantizes else PLAIN_BASE

    with pytest.raises(UsageError, match=f"expected at least {(base + PER_THREAD) >> 20} MiB"):
        affordable(8, base + PER_THREAD - 1, quantizes=quantizes)


@pytest.mark.parametrize(("there", "expected"), [(None, 64), (GIB // 8, 1), (64 * GIB, 64)])
def test_without_a_limit_most_of_what_is_there_may_be_used(monkeypatch, there, expected):
    monkeypatch.setattr(resources, "memory", lambda: there)

    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 1024))
    assert affordable(64, None, quantizes=True) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [(1024, 64), (128, 9), (64, 1), (10, 1), (resource.RLIM_INFINITY, 64)],
)
def test_threads_do_not_run_out_of_descriptors(monkeypatch, files, expected):
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))

    assert affordable(64, 64 * GIB, quantizes=False) == expected
