"""`create -f`: every instruction of a Modelfile, the layers that it becomes, and its errors."""
# ruff: noqa: E501 - tables are read in columns

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.cli.runner import run
from tests.importer.builders import MODELS, model
from tests.importer.formats.gguf import builders as gguf

LLAMA = MODELS / "tiny-llama"
TYPE = "application/vnd.ollama.image."
USE = [f"{TYPE}{word}" for word in ("template", "system", "license", "params", "messages")]
QUERY = "model.layers.0.self_attn.q_proj"


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layers(store, name="m"):
    path = store / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
    return json.loads(path.read_bytes())["layers"]


def uses(store, name="m"):
    """The layers that say how a model is used, in their order."""
    return [
        (layer["mediaType"].removeprefix(TYPE), layer["digest"])
        for layer in layers(store, name)
        if layer["mediaType"] in USE and "name" not in layer
    ]


def config(store, name="m"):
    return run("show", name, "--json", store=store).document["config"]


@pytest.fixture
def create(tmp_path, store):
    """Create a model from the text of a Modelfile."""

    def made(text, *words, name="m"):
        path = tmp_path / "Modelfile"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return run("create", name, "-f", path, *words, store=store)

    return made


EVERY = f"""# everything
FROM {LLAMA}
template \"\"\"{{{{ .System }}}}<a&b>
{{{{ .Prompt }}}}\"\"\"
System    You are a fish.\t
LICENSE \"\"\"MIT\"\"\"
LICENSE "BSD
2"
PARAMETER temperature 0.70
PARAMETER num_ctx +4096
PARAMETER stop "<|end|>"
PARAMETER stop b
PARAMETER use_mmap F
PARAMETER mirostat 2
MESSAGE user "hi
there"
MESSAGE assistant <é>
PARSER qwen3-thinking
RENDERER qwen3-vl-thinking
REQUIRES v0.30.1
"""


def test_every_instruction_becomes_what_ollama_makes_of_it(create, store):
    made = create(EVERY).succeeded()

    assert uses(store) == [
        ("template", digest(b"{{ .System }}<a&b>\n{{ .Prompt }}")),
        ("system", digest(b"You are a fish.")),
        ("license", digest(b"MIT")),
        ("license", digest(b"BSD\n2")),
        (
            "params",
            digest(
                b'{"num_ctx":4096,"stop":["\\u003c|end|\\u003e","b"],"temperature":0.7,'
                b'"use_mmap":false}\n'
            ),
        ),
        (
            "messages",
            digest(
                '[{"role":"user","content":"hi\\nthere"},'
                '{"role":"assistant","content":"\\u003cé\\u003e"}]\n'.encode()
            ),
        ),
    ]
    found = config(store)
    assert (found["parser"], found["renderer"]) == ("qwen3-thinking", "qwen3-vl-thinking")
    assert found["requires"] == "0.30.1"
    assert found["capabilities"] == ["completion", "tools", "thinking"]
    assert "`mirostat` is a parameter that Ollama does not use any more" in made.stderr
    assert run("verify", store=store).code == 0


def test_weights_and_files_are_those_of_an_import_without_one(create, store):
    create(EVERY).succeeded()
    run("create", "plain", LLAMA, store=store).succeeded()

    named = [layer for layer in layers(store) if "name" in layer]
    assert named == layers(store, "plain")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_tells_the_encoding(create, store, encoding):
    create(f"FROM {LLAMA}\r\nSYSTEM é\r\n".encode(encoding)).succeeded()

    assert uses(store) == [("system", digest("é".encode()))]


@pytest.mark.parametrize(
    ("line", "kind", "data"),
    [
        ("SYSTEM a # b", "system", b"a # b"),
        ('SYSTEM "a"b"', "system", b'a"b'),
        ("SYSTEM 'a'", "system", b"'a'"),
        ('SYSTEM """a"""', "system", b"a"),
        ('SYSTEM """\n a\n"""', "system", b"\n a\n"),
        ('SYSTEM " a "', "system", b" a "),
        ("SYSTEM a\u200bb", "system", b"ab"),
        ("SYSTEM a\nSYSTEM b", "system", b"b"),
        ("PARAMETER seed -1", "params", b'{"seed":-1}\n'),
        ("PARAMETER top_p 1e-7", "params", b'{"top_p":1e-7}\n'),
        ("PARAMETER min_p 16777217", "params", b'{"min_p":16777216}\n'),
        ("PARAMETER top_p -0", "params", b'{"top_p":-0}\n'),
        ("PARAMETER stop a\nPARAMETER stop a", "params", b'{"stop":["a","a"]}\n'),
    ],
)
def test_a_value_is_spelled_as_for_ollama(create, store, line, kind, data):
    create(f"FROM {LLAMA}\n{line}\n").succeeded()

    assert uses(store) == [(kind, digest(data))]
    run("verify", store=store).succeeded()


ERRORS = {
    "nothing": ("", "has no FROM line"),
    "no FROM": ("SYSTEM x", "has no FROM line"),
    "another instruction": ("FROM .\nSISTEM x", "line 2, column 1: there is no instruction"),
    "a near miss": ("FROM .\n  SISTEM x", "Did you mean `SYSTEM`?"),
    "a parameter": (
        "FROM .\nPARAMETER temprature 1",
        "line 2, column 11: there is no parameter",
    ),
    "a parameter's case": ("FROM .\nPARAMETER TOP_K 1", "Did you mean `top_k`?"),
    "an integer": ("FROM .\nPARAMETER top_k 1.5", "line 2, column 17: `top_k` is an integer"),
    "a number": (
        "FROM .\nPARAMETER top_p x",
        "line 2, column 17: `top_p` is a number, got `x`",
    ),
    "infinity": ("FROM .\nPARAMETER top_p inf", "is a number"),
    "a flag": ("FROM .\nPARAMETER use_mmap yes", "is true or false"),
    "a role": ("FROM .\nMESSAGE User x", "line 2, column 9: there is no role `User`"),
    "no value": ("FROM .\nSYSTEM", "line 2, column 1: SYSTEM has no value"),
    "no key": ("FROM .\nPARAMETER  a b", "expected the name of a parameter"),
    "open quotes": ('FROM .\nSYSTEM """a\n"', "line 2, column 8: the quotes of this value"),
    "a version": ("FROM .\nREQUIRES latest", "line 2, column 10: `latest` is not a version"),
    "two bases": ("FROM a\nFROM b", "line 2, column 1: a second FROM"),
    "an empty base": ('FROM ""', "FROM names nothing"),
    "bytes": (b"FROM .\nSYSTEM \xff\n", "line 2, column 8: the bytes here are not UTF"),
    "an open action": ("FROM .\nTEMPLATE {{ .A", "TEMPLATE: this action is not closed"),
    "an open block": ("FROM .\nTEMPLATE {{ if .A }}x", "`if` has no `end`"),
    "a function": ("FROM .\nTEMPLATE {{ jsn .A }}", "there is no function `jsn`"),
    "a function nearby": ("FROM .\nTEMPLATE {{ jsn .A }}", "Did you mean `json`?"),
    "control bytes": ("FROM .\n\x1b[2J x", "line 2, column"),
}


@pytest.mark.parametrize(("text", "told"), ERRORS.values(), ids=ERRORS)
def test_a_bad_modelfile_is_an_error_that_says_where(create, store, text, told):
    message = create(text).failed(3)

    assert told in message
    assert not (store / "manifests").exists()


def test_a_version_before_the_first_that_reads_tensors_is_refused(create):
    assert "REQUIRES 0.18.3 is below 0.19.0" in create(f"FROM {LLAMA}\nREQUIRES 0.18.3").failed(
        3
    )


def test_a_modelfile_that_is_not_there_is_not_found(store, tmp_path):
    assert "there is no Modelfile" in run(
        "create", "m", "-f", tmp_path / "x", store=store
    ).failed(9)


def test_deep_templates_are_refused(create):
    text = "FROM .\nTEMPLATE " + "{{ if .A }}" * 5000 + "x"

    assert "nested too deeply" in create(text).failed(3)


def test_paths_are_from_the_directory_of_the_file(store, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "llama").symlink_to(LLAMA)
    (tmp_path / "here" / "Modelfile").write_text("FROM ./llama\n")

    run("create", "m", "-f", tmp_path / "here" / "Modelfile", store=store).succeeded()
    monkeypatch.chdir(tmp_path / "here")
    run("create", "n", store=store).succeeded()

    assert layers(store) == layers(store, "n")


def test_a_source_that_is_named_wins(create, store):
    create("FROM /nowhere\nSYSTEM x\n", LLAMA).succeeded()

    assert uses(store) == [("system", digest(b"x"))]


# From a stored model.


@pytest.fixture
def base(create):
    create(EVERY, name="base").succeeded()


@pytest.mark.usefixtures("base")
def test_a_stored_model_gives_its_layers_without_a_weight_read(create, store, monkeypatch):
    monkeypatch.setattr("importer.pipeline.import_model", None)

    made = create("FROM base\nSYSTEM new\nPARAMETER top_k 3\nLICENSE MIT\n").succeeded()

    assert "no weight was read" in made.stderr
    kinds = [kind for kind, _ in uses(store)]
    assert kinds == ["template", "license", "license", "messages", "system", "params"]
    found = dict(uses(store))
    assert found["system"] == digest(b"new")
    assert found["params"] == digest(
        b'{"num_ctx":4096,"stop":["\\u003c|end|\\u003e","b"],"temperature":0.7,"top_k":3,'
        b'"use_mmap":false}\n'
    )
    assert [one for one in layers(store) if "name" in one] == [
        one for one in layers(store, "base") if "name" in one
    ]
    assert config(store) == config(store, "base")


@pytest.mark.usefixtures("base")
def test_a_modelfile_that_changes_nothing_makes_the_same_model(create, store):
    made = create("FROM base\nSYSTEM You are a fish.\nPARAMETER temperature 0.7\n").succeeded()

    assert (
        made.stdout.split()[1] == run("show", "base", "--json", store=store).document["digest"]
    )


@pytest.mark.usefixtures("base")
def test_a_parser_changes_the_configuration_alone(create, store):
    create("FROM base\nPARSER gemma4\n").succeeded()

    assert layers(store) == layers(store, "base")
    before = config(store, "base")
    assert config(store) == before | {"parser": "gemma4"}
    assert list(config(store)) == list(before)


@pytest.mark.usefixtures("base")
def test_a_stored_model_is_quantized_with_its_use(create, store):
    create("FROM base\nSYSTEM new\n", "-q", "int8").succeeded()

    assert dict(uses(store))["system"] == digest(b"new")
    assert len(uses(store)) == len(uses(store, "base"))
    assert config(store)["renderer"] == "qwen3-vl-thinking"
    assert config(store)["file_type"] == "int8"


@pytest.mark.usefixtures("base")
def test_a_dry_run_writes_nothing(create, store):
    made = create("FROM base\nSYSTEM new\n", "--dry-run").succeeded()

    assert "no weight is read" in made.stdout
    assert "system prompt as the Modelfile says" in made.stdout
    assert not (store / "manifests" / "registry.ollama.ai" / "library" / "m").exists()
    document = create("FROM base\nSYSTEM new\n", "--dry-run", "--json").document
    assert document["base"] == "base:latest"
    assert document["says"] == ["system prompt"]


def test_a_stored_model_that_is_not_there_is_told(create):
    create("FROM nothing-like-it\n").failed(9)


# The way back.

HOSTILE = {
    "everything": EVERY,
    "quotes": f'FROM {LLAMA}\nSYSTEM """a "b" c"""\nTEMPLATE a"\n',
    "blanks": f'FROM {LLAMA}\nSYSTEM "  a\n\n b  "\nPARAMETER stop " "\nPARAMETER stop x\n',
    "an end of a line that returns": f'FROM {LLAMA}\nSYSTEM "a\r\nb\tc"\n',
    "what begins with a quote": f'FROM {LLAMA}\nLICENSE """"a" said he"""\n',
    "many quotes": f'FROM {LLAMA}\nSYSTEM """a\n"""" b"""\nMESSAGE user """"""a""""""\n',
    "a comment": f"FROM {LLAMA}\nSYSTEM # not a comment\n",
    "numbers": f"FROM {LLAMA}\nPARAMETER top_p 1e-30\nPARAMETER seed -0\nPARAMETER min_p -0\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_the_modelfile_of_a_model_makes_it_again(create, store, text):
    first = create(text).succeeded().stdout.split()[1]
    shown = run("show", "m", "--modelfile", store=store).succeeded().stdout

    again = create(shown, name="again").succeeded().stdout.split()[1]

    assert shown.split("\n")[3] == "FROM m:latest"
    assert again == first


# Adapters and drafts.


def lora(path, module=QUERY, a=(4, 64), b=(64, 4), more=None, **changes):
    path.mkdir()
    config = {"peft_type": "LORA", "r": 4} | changes
    (path / "adapter_config.json").write_text(json.dumps(config))
    tensors = {
        f"base_model.model.{module}.lora_A.weight": np.ones(a, np.float32),
        f"base_model.model.{module}.lora_B.weight": np.zeros(b, np.float32),
    }
    save_file(tensors | (more or {}), path / "adapter_model.safetensors")
    return path


def test_an_adapter_is_stored_beside_the_model(create, store, tmp_path):
    lora(tmp_path / "lora")

    create(f"FROM {LLAMA}\nADAPTER ./lora\n").succeeded()

    names = [layer["name"] for layer in layers(store)]
    assert f"adapter.base_model.model.{QUERY}.lora_A.weight" in names
    assert "adapter/adapter_config.json" in names
    shown = run("show", "m", "--json", store=store).document
    run("create", "plain", LLAMA, store=store)
    plain = run("show", "plain", "--json", store=store).document
    assert shown["parameters"] == plain["parameters"]
    assert run("verify", "m", "--source", LLAMA, store=store).code == 0


def test_an_adapter_and_a_draft_are_added_to_a_stored_model(create, store, tmp_path):
    lora(tmp_path / "lora")
    create(EVERY, name="base").succeeded()

    made = create("FROM base\nADAPTER lora\nSYSTEM new\n").succeeded()

    assert "making 3 blobs" in made.stderr
    names = {layer.get("name") for layer in layers(store)}
    assert "adapter/adapter_config.json" in names
    assert names > {layer.get("name") for layer in layers(store, "base")}
    assert dict(uses(store))["system"] == digest(b"new")
    assert config(store)["parser"] == "qwen3-thinking"
    again = create("FROM m\nSYSTEM newer\n", name="again").succeeded()
    assert "no weight was read" in again.stderr
    assert run("verify", store=store).code == 0


def test_an_export_leaves_a_carried_model_out_and_says_so(create, store, tmp_path):
    lora(tmp_path / "lora")
    create(f"FROM {LLAMA}\nADAPTER lora\n").succeeded()

    made = run(
        "export", "m", tmp_path / "out", "--to", "hf", "--dry-run", store=store
    ).succeeded()

    assert "adapter/adapter_config.json" not in made.stdout
    assert "a model that this one carries" in made.stdout
    run("export", "m", tmp_path / "out", "--to", "hf", store=store).succeeded()
    assert b"lora_A" not in (tmp_path / "out" / "model.safetensors").read_bytes()


def test_a_plan_says_what_the_modelfile_says(create):
    made = create(EVERY, "--dry-run").succeeded()

    assert "\n4 parameters as the Modelfile says\n" in made.stdout
    document = create(EVERY, "--dry-run", "--json").document
    assert document["says"][:3] == ["template", "system prompt", "2 licenses"]


BAD_ADAPTERS = {
    "another model's": ({"module": "model.layers.9.x"}, 3, "the model has no `model.layers.9.x"),
    "another shape": ({"b": (65, 4)}, 3, "do not fit a weight of [64, 64]"),
    "two ranks": ({"b": (64, 5)}, 3, "are not of one rank"),
    "a vector": ({"a": (64,)}, 3, "are not of one rank"),
    "another kind": ({"peft_type": "IA3"}, 4, "of type `IA3`, expected `LORA`"),
    "a stray": ({"more": {"x": np.ones(1, np.float32)}}, 3, "begins with `base_model.model.`"),
    "half a pair": (
        {"more": {"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight":
                  np.ones((4, 64), np.float32)}}, 3, "it has no counterpart",
    ),
    "a module that the model lacks": (
        {"more": {"base_model.model.score.weight": np.ones((2, 2), np.float32)}}, 3,
        "the model has no `score.weight` of shape [2, 2]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "code", "told"), BAD_ADAPTERS.values(), ids=BAD_ADAPTERS)
def test_an_adapter_of_another_model_is_refused(create, tmp_path, changes, code, told):
    lora(tmp_path / "lora", **changes)

    assert told in create(f"FROM {LLAMA}\nADAPTER ./lora\n").failed(code)


@pytest.mark.parametrize("has_config", [False, True])
def test_an_adapter_alone_is_told_from_a_model(store, tmp_path, has_config):
    source = lora(tmp_path / "lora", base_model_name_or_path="Qwen/Qwen3-0.6B")
    if has_config:
        shutil.copy(LLAMA / "config.json", source)

    told = run("create", "x", source, store=store).succeeded().stderr
    shown = run("show", "x", store=store).succeeded().stdout

    what = "`adapter_model.safetensors` is a LoRA adapter of `Qwen/Qwen3-0.6B`: it changes"
    assert f"warning: {what} a model and is not one itself" in told
    assert "LlamaForCausalLM" not in shown
    assert "Ollama 0." not in shown


@pytest.mark.parametrize(
    "name", ["unet.down.0.lora.up.weight", "lora_unet_x.alpha", "q.lora_a"]
)
def test_an_adapter_of_another_program_is_told_by_its_names(store, tmp_path, name):
    source = model(tmp_path / "m", {name: ("F32", (4, 8))})

    told = run("create", "x", source, store=store).succeeded().stderr

    assert "is a LoRA adapter: it changes" in told


def test_a_directory_that_is_not_an_adapter_is_refused(create):
    assert "has no `adapter_config.json`" in create(f"FROM {LLAMA}\nADAPTER {LLAMA}\n").failed(
        3
    )


def test_a_draft_is_stored_as_ollama_stores_it(create, store, tmp_path):
    draft = tmp_path / "draft-model"
    draft.mkdir()
    save_file({"a.weight": np.ones((2, 3), np.float32)}, draft / "model.safetensors")
    (draft / "config.json").write_text('{"architectures": ["Draft"]}')

    create(f"FROM {LLAMA}\nDRAFT ./draft-model\n").succeeded()

    header = b'{"draft.a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'
    header += b" " * (-len(header) % 8)
    data = len(header).to_bytes(8, "little") + header + np.ones(6, np.float32).tobytes()
    found = {layer.get("name"): layer["digest"] for layer in layers(store)}
    assert found["draft.a.weight"] == digest(data)
    assert found["draft/config.json"] == digest(b'{"architectures": ["Draft"]}')
    assert config(store)["draft"] == {
        "model_format": "safetensors",
        "architecture": "Draft",
        "tensor_prefix": "draft.",
        "config": "draft/config.json",
    }
    run("create", "small", "m", "-q", "int8", store=store).succeeded()
    small = {layer.get("name"): layer["digest"] for layer in layers(store, "small")}
    assert small["draft.a.weight"] == found["draft.a.weight"]
    assert config(store, "small")["draft"] == config(store)["draft"]
    assert run("verify", store=store).code == 0


def test_a_draft_without_an_architecture_is_refused(create, tmp_path):
    draft = tmp_path / "d"
    draft.mkdir()
    save_file({"a.weight": np.ones((2, 3), np.float32)}, draft / "model.safetensors")

    assert "names no architecture" in create(f"FROM {LLAMA}\nDRAFT d\n").failed(3)


# From a GGUF file.


def gguf_file(path, family):
    keys = [("general.architecture", "string", family)]
    path.write_bytes(gguf.gguf([("token_embd.weight", "F32", (2, 4))], keys))
    return path


def test_a_gguf_file_is_kept_whole_with_its_use(create, store, tmp_path):
    file = gguf_file(tmp_path / "x.gguf", "llama")

    create("FROM ./x.gguf\nSYSTEM Be kind.\nPARAMETER top_k 3\nREQUIRES 0.14.0\n").succeeded()

    assert [(one["mediaType"].removeprefix(TYPE), one["digest"]) for one in layers(store)] == [
        ("model", digest(file.read_bytes())),
        ("system", digest(b"Be kind.")),
        ("params", digest(b'{"top_k":3}\n')),
    ]
    assert config(store)["requires"] == "0.14.0"


@pytest.mark.parametrize(
    ("lines", "params"),
    [
        ("", b'{"stop":["\\u003cturn|\\u003e"]}\n'),
        ("PARAMETER top_k 1", b'{"stop":["\\u003cturn|\\u003e"],"top_k":1}\n'),
        ("PARAMETER stop x", b'{"stop":["x"]}\n'),
        ("PARSER gemma4\nRENDERER gemma4", None),
    ],
)
def test_a_gguf_of_gemma4_stops_where_ollama_stops_it(create, store, tmp_path, lines, params):
    gguf_file(tmp_path / "x.gguf", "gemma4")

    create(f"FROM x.gguf\n{lines}\n").succeeded()

    assert uses(store) == ([] if params is None else [("params", digest(params))])


def test_a_draft_on_a_gguf_file_is_refused(create, tmp_path):
    gguf_file(tmp_path / "x.gguf", "llama")

    assert "cannot carry" in create(f"FROM x.gguf\nDRAFT {LLAMA}\n").failed(4)


def test_layers_of_a_modelfile_are_counted_with_the_others(create):
    create(f"FROM {LLAMA}\n", name="plain").succeeded()

    made = create(f"FROM {LLAMA}\nSYSTEM Be kind.\nLICENSE free\n").succeeded()

    assert "\nwrote 2 documents (" in made.stderr


def test_a_modelfile_that_nobody_named_is_mentioned(store, tmp_path, monkeypatch):
    (tmp_path / "Modelfile").write_text(f"FROM {LLAMA}\n")
    monkeypatch.chdir(tmp_path)

    found = run("create", "a", store=store).succeeded().stderr
    named = run("create", "b", "-f", "Modelfile", store=store).succeeded().stderr

    note = f"no SOURCE is named: doing what `Modelfile` says: FROM {LLAMA}\n"
    assert found.startswith(note)
    assert note not in named
