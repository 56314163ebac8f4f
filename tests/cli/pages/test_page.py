"""The page about a model: whole, escaped, bounded, and the same every time."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from cli.pages import charts
from importer.models.quality import Quality
from importer.sources.stored.tensors import StoredTensor
from store import Digest, Store
from tests.cli.runner import run
from tests.importer.builders import CAUSAL, MODELS, REPOSITORY, create, safetensors, write

SCRIPT = "<script>alert(1)</script>"
TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "section"),
    *("footer", "p", "h1", "h2", "h3", "ul", "li", "dl", "div", "dt", "dd", "small", "strong"),
    *("svg", "g", "rect", "text", "circle", "line", "figure", "figcaption", "span", "code"),
    *("table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"),
}
VOID = {"meta", "link"}
LOADS = ("http:", "https:", "//", "src=", "@import", "url(", "<script", "javascript:", "onload")


class Reader(HTMLParser):
    """Reads a page strictly: what is opened is closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page(store, name):
    return run("show", name, "--html", "-", store=store).succeeded().stdout


@pytest.fixture
def measured(store):
    run("create", "m", MODELS / "tiny-moe", "-q", "int4", "--report", store=store).succeeded()
    return store


def test_the_page_has_everything_that_show_tells(measured):
    read = Reader(page(measured, "m"))

    for said in (
        "m:latest",
        "Glm4MoeForCausalLM",
        "134 KB",
        "91,211",
        "Bits per weight",
        "Runs in no Ollama: it cannot run Glm4MoeForCausalLM from tensors",
        "experts",
        "What quantizing cost",
        "model.layers.1.mlp.experts.1.gate_proj.weight",
        "Where it comes from",
        "all 73.7K",
    ):
        assert said in read.text, said
    assert "LICENSE" in Reader(page_of(measured, "tiny-llama")).text


def page_of(store, fixture):
    run("create", fixture, MODELS / fixture, store=store).succeeded()
    return page(store, fixture)


@pytest.mark.parametrize("fixture", sorted(one.name for one in MODELS.iterdir()))
def test_a_page_loads_nothing_and_runs_nothing(store, fixture):
    text = page_of(store, fixture)
    read = Reader(text)

    assert [word for word in LOADS if word in text.lower()] == []
    assert {tag for tag, _ in read.tags} <= TAGS
    assert len(set(read.ids)) == len(read.ids)
    labelled = [
        attrs["aria-labelledby"] for _, attrs in read.tags if "aria-labelledby" in attrs
    ]
    assert set(labelled) == set(read.ids)
    drawings = [attrs for tag, attrs in read.tags if tag == "svg"]
    assert drawings
    assert all(attrs.get("aria-label") for attrs in drawings)


def test_the_same_model_gives_the_same_page(measured, tmp_path):
    run("create", "m", MODELS / "tiny-moe", "-q", "int4", "--report", store=tmp_path / "other")

    assert page(measured, "m") == page(tmp_path / "other", "m") == page(measured, "m")


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_order_of_sets_does_not_show(measured, seed):
    words = [sys.executable, "-m", "cli", "show", "m", "--html", "-"]
    import os

    environment = os.environ | {"PYTHONHASHSEED": seed, "INGOT_STORE": str(measured)}
    done = subprocess.run(
        words, cwd=REPOSITORY, env=environment, capture_output=True, check=True, text=True
    )
    assert done.stdout == page(measured, "m")


def test_whatever_a_model_says_stays_text(store, tmp_path):
    hostile = f"model.layers.0.{SCRIPT}\"'><img src=x>.weight"
    # Names with `<` are refused; these end attributes, or are text that was escaped already.
    file = "a' onmouseover='alert(1)&lt;img src=x&gt;.txt"
    metadata = {SCRIPT: f"</pre><img src=x>{SCRIPT}"}
    config = CAUSAL | {"architectures": [f"{SCRIPT}</style>"]}
    files = {
        "model.safetensors": safetensors({hostile: ("F32", [4], bytes(16))}, metadata),
        "config.json": config,
        "LICENSE": f"</pre>{SCRIPT}\x1b[31m\u202e",
        "chat_template.jinja": "{{ 7*7 }}{% raw %}</pre>" + SCRIPT,
        file: SCRIPT,
    }
    run("create", "m", write(tmp_path / "source", files), store=store).succeeded()

    text = page(store, "m")
    read = Reader(text)

    assert SCRIPT not in text
    assert "<img" not in text
    assert file in read.text
    assert not any(key.startswith("on") for _, attributes in read.tags for key in attributes)
    assert "49" not in re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)[0]
    assert "{{ 7*7 }}" in read.text
    assert SCRIPT in read.text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[31m\u202e" in read.text


def test_a_private_path_is_not_on_a_page(measured):
    assert str(REPOSITORY) not in page(measured, "m")


def test_a_damaged_model_says_so(measured):
    lost = max((measured / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    lost.unlink()

    done = run("show", "m", "--html", "-", store=measured)

    assert done.code == 5
    assert "Problems" in Reader(done.stdout).text
    assert lost.name.replace("sha256-", "sha256:") in done.stderr


def stored_tensors(count, layers):
    digest = Digest.of(b"")
    return [
        StoredTensor(
            f"model.layers.{number % layers}.mlp.experts.{number}.up_proj.weight",
            "BF16",
            (64, 64),
            None,
            None,
            8192 + number,
            "layer",
            digest,
            None,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(("count", "layers"), [(10_000, 61), (100_000, 5000)])
def test_charts_of_many_tensors_are_bounded(count, layers):
    tensors = stored_tensors(count, layers)

    areas = charts.tree_map(tensors, 1000, 500)
    plot = charts.scatter(qualities(tensors), 900, 300)

    assert len(areas) <= 96
    assert sum(len(area.cells) for area in areas) <= 96 * 8
    assert len(plot.points) + plot.left_out == count
    assert len(plot.points) <= 800


def qualities(tensors):
    from importer.codecs.metrics import Deviation

    return [
        Quality(one.name, "int4", one.shape, Deviation(4096, 1.0, 1.0, 1.0, 0.01, 0.1, 0, 0))
        for one in tensors
    ]


def test_a_model_of_ten_thousand_tensors_has_a_small_page(store, tmp_path):
    names = [
        f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"
        for layer in range(40)
        for expert in range(84)
        for part in ("up", "gate", "down")
    ]
    tensors = {name: ("F32", [4], bytes(16)) for name in names}
    files = {"model.safetensors": safetensors(tensors), "config.json": CAUSAL}
    with Store(store) as opened:
        opened.fs.is_durable = False
        create(opened, write(tmp_path / "big", files))

    text = page(store, "m")

    assert len(names) == 10_080
    assert len(text) < 400_000
    assert "10,080" in Reader(text).text


# The command.


def test_the_page_is_written_whole_to_a_file(measured, tmp_path):
    file = tmp_path / "m.html"
    file.write_text("old", encoding="utf-8")

    done = run("show", "m", "--html", file, store=measured).succeeded()

    assert done.stdout.startswith(f"wrote {file} (")
    assert file.read_text(encoding="utf-8").rstrip("\n") == page(measured, "m").rstrip("\n")
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--html", ""), 2),
        (("--html", "."), 8),
        (("--html", "no/such/place.html"), 8),
        (("--html", "x", "--license"), 2),
        (("--html", "x", "--quality"), 2),
    ],
)
def test_what_cannot_be_a_page_is_an_error(measured, words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    run("show", "m", *words, store=measured).failed(code)
    assert list(tmp_path.glob("x")) == []


def test_a_page_is_not_json(measured):
    assert run("show", "m", "--html", "x", "--json", store=measured).error["exit_code"] == 2


def test_no_other_command_imports_jinja(measured):
    code = (
        "import sys; sys.argv = ['ingot', 'show', 'm']\n"
        "from cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "assert 'jinja2' not in sys.modules, 'imported'"
    )
    import os

    environment = os.environ | {"INGOT_STORE": str(measured)}
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, check=True)
