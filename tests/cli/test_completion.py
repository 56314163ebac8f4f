"""Completion: what may stand at the cursor, and that three shells put it there."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import stat
import subprocess
import sys
import time

import pytest

from cli.completion import answer
from tests.cli.runner import COMMANDS, environment, run
from tests.cli.test_help import flags_of
from tests.importer.builders import REPOSITORY

TYPES = ["int2", "int3", "int4", "int5", "int6", "int8", "nvfp4", "mxfp4", "mxfp8"]
FILES = "(files)"
BREAKS = " \t\n\"'><=;|&(:"


@pytest.fixture
def complete(filled_store, monkeypatch):
    """Give the words that may stand where a line ends, and `(files)` for paths."""
    monkeypatch.setenv("INGOT_STORE", str(filled_store))

    def words(line):
        kind, *found = answer("fish", line.split(" ")[1:])
        return [one.partition("\t")[0] for one in found] + [FILES] * (kind == "files")

    return words


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ingot ", list(COMMANDS)),
        ("ingot c", ["create", "cp", "completion"]),
        ("ingot zzz", []),
        ("ingot --s", ["--store"]),
        ("ingot --store ", [FILES]),
        ("ingot show ", ["kept:latest", "moe:v1"]),
        ("ingot show k", ["kept:latest"]),
        ("ingot show moe:", ["moe:v1"]),
        ("ingot show kept --qua", ["--quality"]),
        ("ingot show kept --quality --qua", []),
        ("ingot --store /nowhere show ", []),
        ("ingot show --store=/nowhere ", []),
        ("ingot rm kept:latest m", ["moe:v1"]),
        ("ingot verify --sou", ["--source"]),
        ("ingot verify kept --source ", [FILES]),
        ("ingot create x ", ["kept:latest", "moe:v1", FILES]),
        ("ingot create x . -q int", [one for one in TYPES if one.startswith("int")]),
        ("ingot create x . --quantize nv", ["nvfp4"]),
        ("ingot create x . --quantize=nv", ["--quantize=nvfp4"]),
        ("ingot create x . --vision ke", ["keep"]),
        ("ingot create x . --allow nv", ["nvfp4"]),
        ("ingot create x . --allow int4,nv", ["int4,nvfp4"]),
        ("ingot save kept m", ["moe:v1", FILES]),
        ("ingot show kept --tensors --sort ", ["name", "size"]),
        ("ingot show kept --quality --sort sq", ["sqnr"]),
        ("ingot create x . --rule *.v=mx", ["*.v=mxfp4", "*.v=mxfp8"]),
        ("ingot create x . --experts ", ["packed", "stacked"]),
        ("ingot create x . --progress j", ["json"]),
        ("ingot create x . --recipe mixed_3", ["mixed_3_4", "mixed_3_6", FILES]),
        ("ingot create x . --jobs ", []),
        ("ingot create x . --file ", [FILES]),
        ("ingot create x . y ", []),
        ("ingot export kept ", [FILES]),
        ("ingot export kept d --to h", ["hf"]),
        ("ingot export kept d --to gguf -q q4_k", ["q4_k_s", "q4_k_m", "q4_k"]),
        ("ingot export kept d --to gguf -q Q5_K_", ["Q5_K_S", "Q5_K_M"]),
        ("ingot export kept d --to uqff -q q4k,hqq", ["q4k,hqq4", "q4k,hqq8"]),
        ("ingot export kept d --to=uqff -q afq4", ["afq4"]),
        ("ingot export kept d --to mlx -q mxfp", ["mxfp4", "mxfp8"]),
        ("ingot export kept d --to hf -q ", []),
        ("ingot list ke", ["kept:latest"]),
        ("ingot ls ke", ["kept:latest"]),
        ("ingot help ve", ["verify"]),
        ("ingot completion ", ["bash", "zsh", "fish"]),
        ("ingot nope ", []),
    ],
)  # fmt: skip
def test_what_may_stand_at_the_cursor(complete, line, found):
    assert complete(line) == found


def test_the_variants_of_a_source_are_those_of_its_files(complete, tmp_path):
    for name in ("model.fp16.safetensors", "model.safetensors", "config.json"):
        (tmp_path / name).touch()

    assert complete(f"ingot create x {tmp_path} --variant ") == ["fp16"]
    assert complete("ingot create x /nowhere --variant ") == []


def test_every_flag_that_is_shown_is_completed(complete):
    for command in COMMANDS:
        flags = flags_of(run(command, "--help").stdout)
        assert set(complete(f"ingot {command} --")) == flags.keys()


def test_bash_breaks_words_at_colons(filled_store, monkeypatch):
    monkeypatch.setenv("INGOT_STORE", str(filled_store))

    assert answer("bash", ["ingot show kept:l"], BREAKS) == ["nothing", "latest"]
    assert answer("bash", ["ingot show kept:l"], " \n") == ["nothing", "kept:latest"]
    assert answer("bash", ["ingot create x . --recipe=mixed_2"], BREAKS)[1] == "mixed_2_6"
    assert answer("bash", ["ingot create 'a b' . -q nv"], BREAKS)[1] == "nvfp4"
    assert answer("bash", ["ingot 'show"], BREAKS) == ["nothing", "show"]


def test_zsh_gets_colons_that_are_not_separators(filled_store, monkeypatch):
    monkeypatch.setenv("INGOT_STORE", str(filled_store))

    assert answer("zsh", ["show", "k"]) == ["nothing", r"kept\:latest:"]


@pytest.mark.parametrize("line", ["", "ingot ''", 'ingot "', "ingot show \\", "ingot --store="])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_cannot_be_completed_is_nothing_and_no_error(shell, line):
    done = run("__complete", shell, *((BREAKS,) if shell == "bash" else ()), line)

    assert (done.code, done.stderr) == (0, "")


def test_completion_imports_nothing_heavy(filled_store):
    script = (
        "import sys; from cli.completion import answer; answer('fish', ['show', '']);"
        "answer('fish', ['create', 'x', '.', '-q', '']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(filled_store),
        capture_output=True,
        check=True,
        text=True,
    )

    heavy = {"numpy", "numba", "rich", "safetensors", "huggingface_hub", "sqlite3"}
    assert not heavy & set(done.stdout.split())


@pytest.fixture
def shell(tmp_path, filled_store):
    """Give a function that types into a shell, and what it then shows."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    command = binaries / "ingot"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    variables = environment(
        filled_store,
        PATH=f"{binaries}:{os.environ['PATH']}",
        HOME=str(tmp_path),
        TERM="dumb",
        PS1="$ ",
    )

    def typed(program, setup, keys):
        if shutil.which(program[0]) is None:
            pytest.skip(f"{program[0]} is not installed")
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(REPOSITORY)
            os.execvpe(program[0], program, variables)
        seen = _until(master, b"")
        os.write(master, f"{setup}; echo rea''dy\n".encode())
        seen = _until(master, b"ready\r\n")
        os.write(master, keys.encode())
        seen = _until(master, b"", seconds=60, quiet=4.0)
        os.write(master, b"\x03\x03exit\n")
        os.close(master)
        os.waitpid(pid, 0)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[>=]|[\x07\x0f]", "", seen.decode())

    return typed


def _until(master, wanted, seconds=60, quiet=1.0):
    """Read until something was shown, or for `quiet` seconds nothing more."""
    seen, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], quiet)
        if not ready:
            if not wanted:
                break
            continue
        try:
            seen += os.read(master, 65536)
        except OSError:
            break
        if wanted and wanted in seen:
            break
    return seen


BASH = ["bash", "--norc", "--noprofile", "-i"]
ZSH = ["zsh", "-f", "-i"]
TYPED = [
    ("ingot show ke\t", "ingot show kept:latest"),
    ("ingot show kept:l\t", "ingot show kept:latest"),
    ("ingot create x . -q nv\t", "-q nvfp4"),
    ("ingot verify --rep\t", "ingot verify --repair"),
    ("ingot exp\t", "ingot export"),
    ("ingot create x pyproj\t", "ingot create x pyproject.toml"),
]


@pytest.mark.parametrize(("keys", "shown"), TYPED)
def test_bash_completes(shell, keys, shown):
    setup = 'eval "$(ingot completion bash)"'

    assert shown in shell(BASH, setup, keys).replace("\r", "")


@pytest.mark.parametrize(("keys", "shown"), TYPED)
def test_zsh_completes(shell, keys, shown):
    setup = 'autoload -U compinit; compinit -u; eval "$(ingot completion zsh)"'

    assert shown in shell(ZSH, setup, keys).replace("\r", "").replace("\\:", ":")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ingot show ke", ["kept:latest"]),
        ("ingot create x . -q nv", ["nvfp4"]),
        ("ingot verify --rep", ["--repair"]),
        ("ingot exp", ["export"]),
        ("ingot create x pyproj", ["pyproject.toml"]),
        ("ingot rm kept:latest m", ["moe:v1"]),
    ],
)
def test_fish_completes(tmp_path, filled_store, line, shown):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    command = tmp_path / "ingot"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["fish", "-N", "-c", f"ingot completion fish | source; complete -C '{line}'"],
        env=environment(
            filled_store, PATH=f"{tmp_path}:{os.environ['PATH']}", HOME=str(tmp_path)
        ),
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )

    assert [one.partition("\t")[0] for one in done.stdout.splitlines()] == shown


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
def test_a_script_is_one_that_its_shell_reads(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    script = run("completion", program).succeeded().stdout

    done = subprocess.run(
        [program, "-n"], input=script, text=True, check=False, capture_output=True
    )

    assert (done.returncode, done.stderr) == (0, "")
