"""No line of a view is wider than the terminal, whatever the names in it."""

from __future__ import annotations

import shlex
import struct

import pytest

from cli.views.table import width_of
from tests.cli.runner import run
from tests.importer.builders import MODELS, model

LONG = f"the-team-with-a-long-name/{'a-model-of-many-words-' * 3}7b:{'quantized-' * 3}int4"
WIDE = "编码器.层.0.自注意力.查询与键值的投影矩阵以及非常长的名字.weight"
ACCENTS = "encodeur.couche.0." + "é" * 30 + "." + "e\u0301" * 40 + ".weight"
WORDS = f"model.layers.0.mlp.{'a_projection_of_many_words_' * 6}weight"
MATRICES = (WIDE, ACCENTS, WORDS, "model.layers.0.self_attn.q_proj.weight")


def test_a_sentence_goes_on_in_the_next_line(tmp_path):
    shown = run("create", "m", MODELS / "tiny-moe", "-q", "int4", store=tmp_path, COLUMNS="60")
    told = [line for line in shown.stderr.splitlines() if not line.startswith("next: ")]
    assert max(map(len, told)) <= 60
    assert "`model.layers.0.mlp.down_proj.weight` [64, 32]" in " ".join(shown.stderr.split())

    shown = run("show", "m", store=tmp_path, COLUMNS="60").succeeded().stdout
    assert "Ollama uses its renderer `glm-4.7` instead" in " ".join(shown.split())


def weights(scale):
    """Matrices of which a weight in each is far from all others, so that they lose much."""
    row = [1000.0 * scale, *[scale * (n % 7 - 3) / 100 for n in range(127)]]
    data = struct.pack("<128f", *row) * 32
    return dict.fromkeys(MATRICES, ("F32", (32, 128), data)) | {
        f"{WORDS}{n}.norm": ("F32", (99,)) for n in range(3)
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with sources and a store of models whose names are long."""
    place = tmp_path_factory.mktemp("wide")
    long = place / "a-directory-with-a-name-of-many-letters" / ("and-another-" * 6)
    config = {"architectures": ["AModelOfManyWordsForConditionalGeneration" * 2]}
    one = model(long / "one", weights(1.0), config, **{f"{'x' * 90}__txt": "text"})
    two = model(long / "two", weights(1.5), {**config, "hidden_size": 4})
    store = place / "store"
    asked = ("-q", "int2", "--report")
    run("create", LONG, one, *asked, store=store).succeeded()
    run("create", f"{LONG}-two", two, *asked, store=store).succeeded()
    run("create", "short", one, store=store).succeeded()
    run("cp", "short", LONG.replace("7b", "8b"), store=store).succeeded()
    run("cp", LONG, LONG.replace("7b", "8b"), store=store).succeeded()
    return place


VIEWS = {
    "show": ("show", LONG),
    "show -v": ("show", LONG, "-v"),
    "tree": ("show", LONG, "--tree"),
    "tensors": ("show", LONG, "--tensors"),
    "quality": ("show", LONG, "--quality"),
    "tensor": ("show", LONG, "--tensor", "*"),
    "list": ("list",),
    "history": ("list", "--history"),
    "df": ("df",),
    "diff": ("diff", LONG, f"{LONG}-two"),
    "diff -v": ("diff", "short", f"{LONG}-two", "-v"),
    "plan": ("create", LONG, "{one}", "-q", "int4", "--dry-run"),
    "export": ("export", LONG, "{out}", "--to", "hf", "--dry-run"),
    "gc": ("gc", "--dry-run"),
    "help": ("create", "--help"),
}


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize("view", VIEWS)
def test_no_line_is_wider_than_the_terminal(place, view, columns):
    (one,) = place.glob("a-*/*/one")
    words = [word.format(one=one, out=place / "out") for word in VIEWS[view]]

    told = run(*words, store=place / "store", COLUMNS=str(columns)).clean()

    assert told.code in {0, 12}, told.stderr
    assert told.stdout
    wide = [line for line in told.stdout.splitlines() if width_of(line) > columns]
    assert [line for line in wide if not is_one_word(line)] == []


def is_one_word(line):
    """Whether a line is one word of a command, which has to stay whole to be typed."""
    words = shlex.split(line.removesuffix(" \\"))
    return len(words) == 1 or (len(words) == 2 and words[0] == "--rule")
