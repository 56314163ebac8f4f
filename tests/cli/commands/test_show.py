"""`ingot show`: sections for people, one document for programs, raw text on demand."""

from __future__ import annotations

import pytest

from store import MediaType, Store
from tests.cli.runner import DIGEST, RFC3339, run
from tests.importer.builders import MODELS, framed, handmade, model, safetensors, tensor_layer
from tests.importer.formats.gguf.builders import GOOD as GGUF

TEMPLATE = "{{ .System }}\n\tTabbed\n\x1b[2Jend"
PARAMS = '{"stop":["<|end|>"],"temperature":0.5}'


@pytest.fixture
def text_store(store):
    """A model with every layer that is text."""
    layers = [
        tensor_layer(safetensors({"w": ("F32", (2,))}), "w", dtype="F32", shape=(2,)),
        (MediaType.JSON, b'{"a": "\\u001b[2J"}', {"name": "config.json"}),
        (MediaType.TEMPLATE, TEMPLATE.encode(), {}),
        (MediaType.SYSTEM, b"Be kind.", {}),
        (MediaType.LICENSE, b"line 1\nline 2\n\nline 3\n", {"name": "LICENSE"}),
        (MediaType.PARAMS, PARAMS.encode(), {}),
    ]
    with Store(store) as opened:
        handmade(opened, layers)
    return store


def sections(text):
    return [
        line.strip() for line in text.splitlines() if line.startswith("  ") and line[2] != " "
    ]


def test_a_program_reads_the_capabilities_that_people_do(store, tmp_path):
    source = model(tmp_path / "s", config={"architectures": ["BertModel"]})
    run("create", "m", source, store=store).succeeded()

    found = run("show", "m", "--json", store=store).succeeded().document

    assert found["capabilities"] == []
    assert found["config"]["capabilities"] == ["completion"]


def test_the_sections_are_those_of_ollama_and_more(filled_store):
    shown = run("show", "kept", store=filled_store).succeeded().stdout

    first = ["Model", "Types", "Capabilities", "Storage"]
    assert sections(shown) == [*first, "Template", "Parameters", "License"]
    assert "    tokenizer_config.json: Ollama does not read it\n" in shown
    assert "    generation_config.json: Ollama takes `eos_token_id` from it" in shown
    assert "    architecture        LlamaForCausalLM\n" in shown
    assert "    parameters          82,240\n" in shown
    assert "    quantization        none\n" in shown
    assert "    BF16    164 KB    100.0%    21 tensors\n" in shown


def test_verbose_adds_files_and_tensors(filled_store):
    shown = run("show", "kept", "-v", store=filled_store).succeeded().stdout

    assert sections(shown)[-2:] == ["Files", "Tensors"]
    assert "tokenizer.model" in shown
    assert "model.layers.{0-1}.mlp.up_proj.weight" in shown


def test_verbose_tells_all_that_made_a_model(store, tmp_path):
    written = tmp_path / "Modelfile"
    written.write_text(f"FROM {MODELS / 'tiny-llama'}\nSYSTEM be brief\nLICENSE MIT\n")
    run("create", "told", "-f", written, "-q", "int4", store=store).succeeded()
    run("create", "plain", MODELS / "tiny-llama", store=store).succeeded()

    shown = run("show", "told", "-v", store=store).succeeded().stdout

    assert "and the instructions that `ingot show told:latest --modelfile` prints" in shown
    plain = run("show", "plain", "-v", store=store).succeeded().stdout
    assert "--modelfile" not in plain


def test_every_license_is_previewed(store, tmp_path):
    written = tmp_path / "Modelfile"
    written.write_text(f"FROM {MODELS / 'tiny-llama'}\nLICENSE of the file\nLICENSE another\n")
    run("create", "m", "-f", written, store=store).succeeded()

    shown = run("show", "m", store=store).succeeded().stdout

    assert "    of the file\n" in shown
    assert "    another\n" in shown


def test_a_page_needs_a_directory(filled_store, tmp_path):
    text = run("show", "kept", "--html", tmp_path / "no" / "a.html", store=filled_store).failed(
        8
    )

    assert f"`{tmp_path / 'no'}` is not a directory" in text
    assert not (tmp_path / "no").exists()


def test_tensors_are_rows_with_repeated_layers_in_one(filled_store):
    head, *rows, last = [
        line.split()
        for line in run("show", "moe:v1", "--tensors", store=filled_store).stdout.splitlines()
    ]

    assert head == ["TENSORS", "TYPE", "SHAPE", "SIZE", "TOTAL", "SHARE"]
    experts = (
        "model.layers.1.mlp.experts.{0-10}.up_proj.weight F16 [32 64] 4.1 KB x11 45 KB 24.7%"
    )
    assert experts.split() in rows
    repeats = [int(cell[1:]) for row in rows for cell in row if cell.startswith("x")]
    single = [row for row in rows if not any(cell.startswith("x") for cell in row)]
    assert sum(repeats) + len(single) == 61
    assert last[:2] == ["all", "x61"]
    assert last[-1] == "100.0%"


def test_a_glob_chooses_tensors(filled_store):
    chosen = run("show", "kept", "--tensors", "*norm*", store=filled_store).succeeded().stdout

    assert len(chosen.splitlines()) == 5
    assert "a second argument" in run("show", "kept", "*norm*", store=filled_store).failed(2)


def test_tensors_are_sorted_by_size_on_demand(filled_store):
    words = ("show", "kept", "--tensors", "--sort", "size")

    _, first, *_ = run(*words, store=filled_store).succeeded().stdout.splitlines()

    assert first.startswith("model.layers.{0-1}.mlp.")
    run("show", "kept", "--sort", "shape", store=filled_store).failed(2)


def test_the_document_holds_integers_times_and_digests(filled_store):
    document = run("show", "kept", "--json", store=filled_store).succeeded().document

    assert document["schema"] == "ingot.show/1"
    assert document["name"] == "kept:latest"
    assert DIGEST.fullmatch(document["digest"])
    assert RFC3339.fullmatch(document["modified"])
    for key in ("parameters", "context_length", "embedding_length", "size", "shared"):
        assert type(document[key]) is int, key
    assert document["types"] == [{"name": "BF16", "tensors": 21, "bytes": 164_480}]
    assert len(document["tensors"]) == 21
    assert document["tensors"][0] == {
        "name": "lm_head.weight",
        "dtype": "BF16",
        "shape": [64, 64],
        "quant_type": None,
        "group_size": None,
        "bytes": 8192,
        "layer": "lm_head.weight",
        "digest": document["tensors"][0]["digest"],
    }
    assert document["problems"] == []
    assert document["config"]["model_format"] == "safetensors"
    assert all(type(layer["size"]) is int for layer in document["layers"])


def test_a_glob_that_matches_nothing_is_not_found(filled_store):
    message = run("show", "kept", "--tensors", "none.*", store=filled_store).failed(9)

    assert message.startswith("error: no tensor of kept:latest matches `none.*`\n")
    assert run("show", "kept", "--tensors", store=filled_store).succeeded().stderr == ""


def test_a_glob_chooses_tensors_of_the_document(filled_store):
    words = ("show", "kept", "--tensors", "*.0.mlp.*", "--json")

    document = run(*words, store=filled_store).succeeded().document

    assert len(document["tensors"]) == 3
    assert document["parameters"] == 82_240


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--config", '{"a": "\\u001b[2J"}\n'),
        ("--system", "Be kind.\n"),
        ("--parameters", f"{PARAMS}\n"),
    ],
)
def test_one_text_is_printed_alone(text_store, flag, text):
    assert run("show", "m", flag, store=text_store).succeeded().stdout == text


def test_a_text_cannot_drive_a_terminal(text_store):
    shown = run("show", "m", "--template", store=text_store).succeeded().stdout

    assert "\\x1b[2Jend" in shown
    assert shown.startswith("{{ .System }}\n")


def test_a_license_is_previewed(text_store):
    shown = run("show", "m", store=text_store).succeeded().stdout

    assert "  License\n    line 1\n    line 2\n    ...\n" in shown
    assert "  System\n    Be kind.\n" in shown
    full = run("show", "m", "--license", store=text_store).succeeded().stdout
    assert full.startswith("line 1\nline 2\n\nline 3\n")


@pytest.mark.parametrize(
    ("name", "flag"), [("kept", "--system"), ("moe:v1", "--system"), ("moe:v1", "--parameters")]
)
def test_a_text_that_a_model_lacks_is_not_found(filled_store, name, flag):
    assert f"has no {flag[2:]}" in run("show", name, flag, store=filled_store).failed(9)


@pytest.mark.parametrize(
    ("name", "flag", "text", "told"),
    [
        ("kept", "--template", "{% for message", "tokenizer_config.json: Ollama does not read"),
        ("moe:v1", "--template", "{% for message", "its renderer `glm-4.7` instead"),
        ("kept", "--parameters", '"eos_token_id": 1', "Ollama takes `eos_token_id` from it"),
    ],
)
def test_what_the_files_of_a_model_say_is_printed(filled_store, name, flag, text, told):
    made = run("show", name, flag, store=filled_store).succeeded()

    assert text in made.stdout
    assert told in made.stderr


def test_two_texts_at_once_are_a_usage_error(filled_store):
    text = run("show", "kept", "--config", "--license", store=filled_store).failed(2)

    assert "only one of" in text


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_a_model_that_is_not_there_is_not_found(filled_store, store, json):
    for place in (filled_store, store):
        outcome = run("show", "no:such", *json, store=place)
        assert outcome.code == 9
        what = "model `no:such` not found" if place == filled_store else "there is no store"
        assert what in outcome.clean().stderr
    assert not store.exists()


def test_a_damaged_model_is_shown_with_exit_code_5(filled):
    blob = max((filled / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    blob.unlink()

    text = run("show", "kept", store=filled).clean()
    damaged = run("show", "moe:v1", "--json", store=filled)

    assert {text.code, damaged.code} == {0, 5}
    assert damaged.clean().document["problems"]


def test_a_gguf_model_of_ollama_is_shown(store):
    config = (
        b'{"model_format":"gguf","model_family":"llama","model_families":["llama"],'
        b'"model_type":"8.0B","file_type":"Q4_K_M","architecture":"amd64","os":"linux"}\n'
    )
    with Store(store) as opened:
        handmade(opened, [(MediaType.MODEL, GGUF, {})], "llama3", config)

    shown = run("show", "llama3", store=store).succeeded().stdout

    facts = dict(line.split(maxsplit=1) for line in shown.splitlines() if " " in line.strip())
    assert (facts["architecture"], facts["parameters"]) == ("llama", "72")
    assert (facts["quantization"], facts["layers"]) == ("Q4_0", "1")
    assert run("show", "llama3", "--json", store=store).document["parameters"] == 72


def test_metadata_is_shown(store):
    with Store(store) as opened:
        handmade(opened, [(MediaType.MODEL, GGUF, {})], "llama3", b"{}")
        handmade(opened, [], "other", b"{}")

    shown = run("show", "llama3", "--metadata", store=store).succeeded().stdout
    entries = run("show", "llama3", "--metadata", "--json", store=store).document["metadata"]

    assert "general.architecture     llama\n" in shown
    assert "tokenizer.ggml.tokens    [3 x string]\n" in shown
    assert entries[1] == {
        "file": "model",
        "key": "llama.block_count",
        "type": "u32",
        "value": 1,
        "length": None,
    }
    assert entries[2]["type"] == "array of string"
    assert run("show", "other", "--metadata", store=store).code == 9


HOSTILE = {
    "constants": ([], b'{"a":NaN,"b":1e999,"c":-Infinity}'),
    "types": ([], b'{"model_family":["x"],"model_type":3,"capabilities":"x","ingot":[]}'),
    "twice": (
        [tensor_layer(safetensors({"a.1.b": ("F32", (1,))}), "a.1.b", dtype="F32", shape=(1,))]
        * 2,
        b"{}",
    ),
    "digits": (
        [tensor_layer(safetensors({f"a.{'9' * 900}.b": ("U8", (1,))}), f"a.{'9' * 900}.b")],
        b"{}",
    ),
    "scalar": (
        [tensor_layer(safetensors({"w": ("U32", ()), "w.scale": ("F16", ())}), "w")],
        b"{}",
    ),
    "group size": (
        [
            tensor_layer(
                safetensors(
                    {"w": ("U32", (1, 1)), "w.scale": ("F16", (1, 1))},
                    {"quant_type": "int4", "group_size": "9" * 5000},
                ),
                "w",
            )
        ],
        b"{}",
    ),
    "words": ([], b'{"model_family":"\\u001b[2J","requires":"\\u202e","capabilities":["\\n"]}'),
    "no tensor": ([tensor_layer(b"x" * 50, "w")], b"{}"),
    "header": ([tensor_layer(framed("[]"), "w")], b"{}"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_model_does_no_harm(store, case):
    layers, config = HOSTILE[case]
    with Store(store) as opened:
        handmade(opened, layers, config=config)

    for words in ([], ["-v"], ["--tensors"], ["--json"], ["--tensors", "--sort", "size"]):
        outcome = run("show", "m", *words, store=store).clean()
        assert outcome.code in {0, 5}
        if "--json" in words:
            assert outcome.document["name"] == "m:latest"
    assert run("show", "m", "--tree", store=store).clean().code in {0, 5}
    assert run("show", "m", "--tensor", "*", store=store).clean().code in {0, 3, 4, 5}
    assert run("list", store=store).clean().code == run("df", store=store).clean().code == 0


def test_a_name_with_digits_that_python_refuses_to_read_does_no_harm(store):
    name = "9" * 5000
    header = framed({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"1234",
                    padded=True)  # fmt: skip
    with Store(store) as opened:
        handmade(opened, [tensor_layer(header, name, dtype="F32", shape=(1,))])

    run("show", "m", "--tensors", store=store).succeeded()


def test_the_source_is_shown_without_the_memo(filled, tmp_path):
    run("create", "new", model(tmp_path / "here"), store=filled).succeeded()
    run("cp", "new", "copy", store=filled).succeeded()
    for path in filled.glob("memo.sqlite*"):
        path.unlink()

    for name in ("new", "copy"):
        shown = run("show", name, store=filled).succeeded().stdout
        assert f"source              {tmp_path}" in shown


def test_the_source_is_shown_only_where_it_is_known(filled, tmp_path):
    run("create", "new", model(tmp_path / "here"), store=filled).succeeded()
    for path in (filled / "origins").iterdir():
        path.unlink()

    assert "source" not in run("show", "new", store=filled).succeeded().stdout
    assert run("show", "new", "--json", store=filled).document["source"] is None
