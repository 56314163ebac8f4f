"""What `show` says of a model, in the columns that there are."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

import numpy as np
import pytest

from importer.codecs.metrics import Deviation
from importer.codecs.reference import floats
from importer.models.quality import Quality
from importer.models.suspicion import suspicion_of
from store import MediaType, Store
from tests.cli.runner import argv, environment, run
from tests.importer.builders import CAUSAL, MODELS, handmade, model


@pytest.fixture(scope="module")
def shown_store(tmp_path_factory):
    """A store with a mixture that has a report, a plain model and a pipeline."""
    store = tmp_path_factory.mktemp("facts") / "store"
    moe = MODELS / "tiny-moe"
    run("create", "moe", moe, "-q", "int4", "--report", store=store).succeeded()
    run("create", "llama", MODELS / "tiny-llama", store=store).succeeded()
    run("create", "pipe", MODELS / "tiny-pipeline", "-q", "int8", store=store).succeeded()
    run("cp", "moe", f"team/{'long-name-' * 5}x:v1", store=store).succeeded()
    return store


def facts(text):
    found = re.findall(r"^    (\w[\w .]*?)  +(\S.*)$", text, re.MULTILINE)
    return dict(found)


def test_the_facts_of_a_model(shown_store):
    found = facts(run("show", "moe", store=shown_store).succeeded().stdout)

    assert found["layers"] == "2"
    assert found["heads"] == "2, 1 for keys and values"
    assert found["experts"] == "11, 2 for each token"
    assert found["vocabulary"] == "64"
    assert found["recipe"] == "default for int4"
    assert found["runs in"].startswith("no Ollama")
    assert "requires" not in found
    assert found["source"] == str(MODELS / "tiny-moe")
    assert found["quality"].startswith(
        "22.1 dB, worst 21.7 dB of model.layers.1.mlp.experts.1."
    )
    assert found["fell back"].startswith(
        "15 tensors are not quantized: model.layers.0.mlp.down"
    )
    assert found["own"].startswith("0 B")
    assert "team/" in found["shared"]


def test_bits_per_weight_are_those_of_the_data(shown_store):
    document = run("show", "moe", "--json", store=shown_store).document
    found = facts(run("show", "moe", store=shown_store).stdout)

    bits = 8 * sum(one["bytes"] for one in document["tensors"]) / document["parameters"]
    assert found["bits per weight"] == f"{bits:.2f}"
    assert document["weight_bytes"] == sum(one["bytes"] for one in document["types"])


def test_the_document_tells_what_the_lines_do(shown_store):
    document = run("show", "moe", "--json", store=shown_store).document

    assert document["dimensions"] == {
        "layers": 2,
        "heads": 2,
        "kv_heads": 1,
        "vocabulary": 64,
        "experts": 11,
        "experts_used": 2,
    }
    assert len(document["fell_back"]) == 15
    assert document["fell_back"][0]["reason"] == "32 % 64 != 0"
    assert document["own"] + document["shared"] == document["size"]
    assert document["shared_with"][0]["bytes"] == document["shared"]


def test_a_repository_and_its_revision_are_told(store):
    commit = "0123456789abcdef0123456789abcdef01234567"
    hub = b'{"ingot":{"hub":{"repository":"org/repo","commit":"%s"},"variant":"fp16"}}'
    with Store(store) as opened:
        handmade(opened, [], config=hub % commit.encode())

    found = facts(run("show", "m", store=store).succeeded().stdout)
    document = run("show", "m", "--json", store=store).document

    assert (found["repository"], found["revision"]) == ("hf.co/org/repo", commit)
    assert found["variant"] == document["variant"] == "fp16"
    assert (document["repository"], document["revision"]) == ("org/repo", commit)


def test_the_model_that_one_was_made_of_is_named(shown_store, tmp_path):
    store = shutil.copytree(shown_store, tmp_path / "copy")
    run("create", "small", "llama", "-q", "int4", store=store).succeeded()

    assert facts(run("show", "small", store=store).stdout)["made of"].startswith(
        "llama:latest ("
    )
    run("rm", "llama", store=store).succeeded()
    assert "no name any longer" in facts(run("show", "small", store=store).stdout)["made of"]


def test_verbose_has_the_command_that_makes_the_model_again(shown_store):
    shown = run("show", "moe", "-v", store=shown_store).succeeded().stdout

    assert f"    ingot create moe:latest {MODELS}/tiny-moe -q int4" in shown


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize(
    "words",
    [
        ("show", "moe"),
        ("show", "pipe"),
        ("show", "llama"),
        ("show", "moe", "--tensors"),
        ("show", "moe", "--tensors", "--sort", "size"),
        ("show", "moe", "--quality"),
        ("list",),
        ("list", "--history"),
        ("create", "x", MODELS / "tiny-moe", "-q", "int4", "--dry-run"),
    ],
    ids=lambda words: " ".join(map(str, words[:4])),
)
def test_everything_fits_the_terminal(shown_store, words, columns):
    shown = run(*words, store=shown_store, COLUMNS=str(columns)).succeeded().stdout

    # A sentence may be long: a terminal wraps it, and what is cut cannot be copied.
    sentence = re.compile(r"warning: |runs in |rules of |worst: |\d+ of \d+ ")
    long = [line for line in shown.splitlines() if len(line) > columns]
    assert [line for line in long if not sentence.match(line)] == []


@pytest.mark.parametrize("columns", [60, 120])
def test_the_terminal_itself_tells_how_wide_it_is(shown_store, columns):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        argv("show", "moe", "--tensors"), env=environment(shown_store), stdout=slave
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # the other end was closed
        while piece := os.read(master, 1 << 16):
            seen += piece
    os.close(master)

    assert process.wait() == 0
    widths = {len(line) for line in seen.decode().splitlines()}
    assert max(widths) <= columns
    assert max(widths) > columns - 30


def test_a_damaged_license_does_not_keep_the_rest_from_being_shown(shown_store, tmp_path):
    store = shutil.copytree(shown_store, tmp_path / "copy")
    layers = run("show", "llama", "--json", store=store).document["layers"]
    digest = next(one["digest"] for one in layers if one["mediaType"] == MediaType.LICENSE)
    path = store / "blobs" / digest.replace(":", "-")
    path.chmod(0o600)
    path.write_bytes(b"x")

    outcome = run("show", "llama", store=store).clean()

    assert outcome.code == 5
    assert "LlamaForCausalLM" in outcome.stdout
    assert re.search(r"^    parameters +82,240$", outcome.stdout, re.MULTILINE)
    assert digest in outcome.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--tensors", "--quality"),
        ("--tensors", "-v"),
        ("--tree", "--tensor", "x"),
        ("--sort", "size"),
        ("--sort", "zeroed", "--tensors"),
        ("--tree", "--sort", "name"),
        ("--config", "-v"),
        ("*norm*", "--tree"),
    ],
)
def test_what_would_be_ignored_is_an_error(shown_store, words):
    run("show", "moe", *words, store=shown_store).failed(2)


def test_an_empty_match_is_told(shown_store):
    for flag in ("--tensor", "--tensors", "--quality"):
        words = ("show", "moe", flag, "no*")
        assert "matches `no*`" in run(*words, store=shown_store).failed(9)
        assert run(*words, "--json", store=shown_store).error["code"] == "E_NO_TENSOR"
    outcome = run("list", "no*", store=shown_store).succeeded()
    assert outcome.stderr == "no model matches `no*`\n"


def expert(seed, outliers):
    values = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
    if outliers:
        values *= 0.001
        values[:, ::32] = 5.0
    return floats.narrow(values, "BF16").tobytes()


def test_one_bad_expert_of_many_is_first_and_named_with_a_rule(store, tmp_path):
    bad = "model.layers.1.mlp.experts.17.up_proj.weight"
    tensors = {
        name: ("BF16", (64, 64), expert(number, outliers=name == bad))
        for number in range(40)
        for layer in (0, 1)
        for name in [f"model.layers.{layer}.mlp.experts.{number}.up_proj.weight"]
    }
    tensors["model.layers.0.self_attn.q_proj.weight"] = (
        "BF16",
        (64, 64),
        expert(99, outliers=False),
    )
    source = model(tmp_path / "source", tensors, CAUSAL)
    words = ("create", "m", source, "-q", "int4", "--report")
    told = run(*words, store=store).succeeded().stderr
    assert "warning: 1 of 81 tensors is suspicious\n" in told
    assert "\nnext: ingot show m:latest --quality" in told

    for order in ("sqnr", "zeroed", "clipped", "size"):
        shown = run("show", "m", "--quality", "--sort", order, store=store).succeeded().stdout
        assert "experts" in shown.splitlines()[1]
    by_zeroed = run("show", "m", "--quality", "--sort", "zeroed", store=store).stdout
    assert "layers.1 experts.17" in by_zeroed.splitlines()[1]
    assert "1 of 81 tensors is suspicious:" in by_zeroed
    rule = re.search(r"--rule (\S+)", by_zeroed)[1]
    assert rule == f"{bad.removesuffix('.weight')}=keep"
    assert "1 of 81 tensors suspicious" in " ".join(
        run("show", "m", store=store).stdout.split()
    )

    run(*words, "--rule", rule, store=store).succeeded()

    assert (
        "none of 80 tensors is suspicious" in run("show", "m", "--quality", store=store).stdout
    )


@pytest.mark.parametrize(
    ("kind", "sqnr", "zeroed", "clipped", "helps"),
    [
        ("int4", 21.0, 0.12, 0.01, None),
        ("int4", 12.0, 0.12, 0.01, "int8"),
        ("int4", 2.0, 0.12, 0.01, "keep"),
        ("int4/64", 21.0, 0.97, 0.01, "keep"),
        ("int8", 30.0, 0.0, 0.01, "keep"),
        ("int4", 21.0, 0.12, 0.2, "keep"),
        ("int2", 8.0, 0.5, 0.03, None),
        ("bf16", 56.0, 0.0, 0.0, None),
        ("f16", 30.0, 0.6, 0.0, "keep"),
        ("Q4_K", 1.0, 0.9, 0.0, None),
    ],
)
def test_what_is_suspicious(kind, sqnr, zeroed, clipped, helps):
    share = 10 ** (-sqnr / 10)
    sums = Deviation(
        1000, 1.0, 1.0, 1.0, share, 1.0, round(1000 * clipped), round(1000 * zeroed)
    )

    found = suspicion_of(Quality("w", kind, (10, 100), sums))

    assert (found and found.helps) == helps


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_rounding_is_measured_as_numpy_does(store, tmp_path, kind):
    values = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    source = model(tmp_path / "m", {"a.weight": ("F32", values.shape, values.tobytes())})

    run("create", "m", source, "-q", kind, "--report", store=store).succeeded()
    (found,) = _quality(store)

    rounded = floats.rounded(values, kind.upper()).astype(np.float64)
    wide = values.astype(np.float64)
    expected = 10 * np.log10((wide**2).sum() / ((rounded - wide) ** 2).sum())
    assert found["type"] == kind
    assert found["sqnr_db"] == pytest.approx(expected, abs=1e-9)
    assert found["max_error"] == np.abs(rounded - wide).max()


def _quality(store):
    import json

    return json.loads(run("show", "m", "--quality", "--json", store=store).stdout)["quality"]


def test_a_model_that_lost_nothing_is_told_so(shown_store):
    told = run("show", "llama", "--quality", store=shown_store).failed(9)

    assert "nothing of it was quantized or rounded" in told
    assert "--report" not in told
