"""The format gguf: what llama.cpp's converter writes of the same source, to the byte."""

from __future__ import annotations

import hashlib
import json

import pytest

from importer.sources.containers.gguf import read_file_header
from importer.sources.containers.gguf_facts import facts_of
from importer.sources.file import find
from store import Store
from store.errors import InputError, NotFoundError, UnsupportedError, UsageError
from tests.importer.builders import REPOSITORY, create
from tests.importer.exports.exporting import export, planned
from tests.importer.exports.gguf_checkpoints import MIXTURES, MODELS, TYPES, checkpoint
from tests.importer.formats.imatrix.builders import dat, ended, entry

GOLDEN = json.loads((REPOSITORY / "fixtures" / "gguf" / "golden.json").read_bytes())


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def told(path):
    """The keys of a file that are not lists."""
    file = find(path.name, path)
    values = facts_of(file, read_file_header(file)).values
    return {key: value for key, value in values.items() if not isinstance(value, (list, tuple))}


def changed(directory, path="config.json", **values):
    """Change keys of a JSON file; None removes one."""
    document = json.loads((directory / path).read_bytes()) | values
    document = {key: value for key, value in document.items() if value is not None}
    (directory / path).write_text(json.dumps(document))
    return directory


@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_the_one_that_llama_cpp_writes(tmp_path, name):
    source = checkpoint(tmp_path / "in", name, shards=2)
    for kind in (*TYPES, *MIXTURES.get(name, ())):
        out = tmp_path / f"{kind}.gguf"
        export(None, out, "gguf", source=source, q=kind)

        found = hashlib.sha256(out.read_bytes()).hexdigest()
        if kind == "bf16" and found != GOLDEN[name]["sha256"][kind]:
            expected = {
                key: value
                for key, value in GOLDEN[name]["keys"].items()
                if not key.startswith("tokenizer.")
            }
            assert {key: told(out).get(key) for key in expected} == expected
        assert found == GOLDEN[name]["sha256"][kind], kind


def test_without_a_type_matrices_keep_theirs(tmp_path):
    source = checkpoint(tmp_path / "in", "llama", shards=2)

    export(None, tmp_path / "out.gguf", "gguf", source=source)

    found = hashlib.sha256((tmp_path / "out.gguf").read_bytes()).hexdigest()
    assert found == GOLDEN["llama"]["sha256"]["bf16"]


@pytest.mark.parametrize("name", ["llama", "mixtral", "gpt-oss", "gpt-oss-packed"])
def test_a_stored_model_gives_what_one_file_of_it_gives(store, tmp_path, name):
    source = checkpoint(tmp_path / "m", name)
    create(store, source)

    export(None, tmp_path / "a.gguf", "gguf", source=source, q="f16")
    export(store, tmp_path / "b.gguf", "gguf", q="f16")

    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_gguf_file_gives_a_directory_with_the_files_that_are_made_of_it(
    store, tmp_path, is_stored
):
    file = tmp_path / "in.gguf"
    export(None, file, "gguf", source=checkpoint(tmp_path / "m", "llama3"), q="q8_0")
    if is_stored:
        create(store, file)

    source = {} if is_stored else {"source": file}
    export(store if is_stored else None, tmp_path / "out", "hf", dtype="F32", **source)

    made = json.loads((tmp_path / "out" / "generation_config.json").read_bytes())
    assert made == {"bos_token_id": 260, "eos_token_id": 261}
    assert json.loads((tmp_path / "out" / "config.json").read_bytes())["hidden_size"] == 64


def test_the_number_of_threads_changes_no_byte(tmp_path):
    source = checkpoint(tmp_path / "in", "qwen2moe")
    for threads in (1, 3):
        export(None, tmp_path / str(threads), "gguf", source=source, q="q8_0", threads=threads)

    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()


def test_the_export_is_one_file_and_nothing_is_left_beside_it(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")

    done = export(None, tmp_path / "new" / "out.gguf", "gguf", source=source)

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.gguf"]
    assert [file.path for file in done.files] == ["out.gguf"]
    assert {row.file for row in done.rows} == {"out.gguf"}


def test_a_place_that_is_taken_is_refused(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()

    for taken, why in (("file", "is not replaced"), ("empty", "directory")):
        with pytest.raises(UsageError, match=why):
            planned(None, tmp_path / taken, "gguf", source=source)

    assert (tmp_path / "file").read_text() == "mine"


def test_what_comes_to_the_place_meanwhile_stays(tmp_path):
    from importer.exports.export import export_model

    source = checkpoint(tmp_path / "in", "llama")
    request, plan = planned(None, tmp_path / "out.gguf", "gguf", source=source)
    (tmp_path / "out.gguf").write_text("mine")

    with pytest.raises(UsageError, match="came into being"):
        export_model(request, plan, None)

    assert (tmp_path / "out.gguf").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out.gguf"}


def test_an_unknown_architecture_is_named(tmp_path):
    source = changed(checkpoint(tmp_path / "in", "llama"), architectures=["XyzForCausalLM"])

    with pytest.raises(UnsupportedError, match="XyzForCausalLM"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


def test_a_type_that_gguf_lacks_is_a_usage_error(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")

    for asked in ({"q": "int4"}, {"q": "f16", "group_size": 32}, {"dtype": "F16"}):
        with pytest.raises(UsageError):
            planned(None, tmp_path / "out.gguf", "gguf", source=source, **asked)


LIES = [
    ("llama", {"num_attention_heads": 7}),
    ("llama", {"num_attention_heads": 0}),
    ("llama", {"num_attention_heads": "two"}),
    ("llama", {"num_key_value_heads": 5}),
    ("llama", {"hidden_size": -1}),
    ("llama", {"hidden_size": 1 << 40}),
    ("llama", {"vocab_size": 1 << 30}),
    ("llama", {"vocab_size": [1]}),
    ("llama", {"rms_norm_eps": "small"}),
    ("llama", {"rms_norm_eps": 1e300}),
    ("llama", {"rope_scaling": "llama3"}),
    ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": "x"}}),
    ("llama", {"bos_token_id": -4}),
    ("llama3", {"rope_scaling": {"rope_type": "llama3", "factor": 0}}),
    ("llama3", {"rope_theta": None, "rope_scaling": {"rope_type": "llama3", "rope_theta": []}}),
    ("llama3", {"vocab_size": 100}),
    ("deepseek2", {"qk_nope_head_dim": 3}),
    ("deepseek2", {"kv_lora_rank": "many"}),
    ("phi3", {"original_max_position_embeddings": 0}),
    ("phi3", {"rope_scaling": {"type": "longrope", "long_factor": [1]}}),
    ("gemma2", {"sliding_window": "wide"}),
    # Found by mutation of configurations.
    ("phi3", {"rope_scaling": {"rope_type": ["longrope"]}}),
    ("phi3", {"rope_scaling": {"type": "longrope", "long_factor": [10**400] * 16}}),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 10**400}}),
    ("llama3", {"rope_scaling": {"rope_type": "llama3", "factor": 10**400}}),
    ("llama", {"rope_scaling": {"rope_type": "default", "mrope_section": [1 << 31]}}),
    ("qwen2moe", {"scoring_func": {}}),
]


@pytest.mark.parametrize(("name", "lie"), LIES)
def test_a_configuration_that_lies_is_an_error(tmp_path, name, lie):
    source = changed(checkpoint(tmp_path / "in", name), **lie)

    with pytest.raises(InputError):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


@pytest.mark.parametrize("name", ["llama", "llama3"])
def test_a_model_without_a_vocabulary_is_refused(tmp_path, name):
    source = checkpoint(tmp_path / "in", name)
    for path in ("tokenizer.model", "tokenizer.json"):
        (source / path).unlink(missing_ok=True)

    with pytest.raises(UnsupportedError, match="vocabulary"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("tokenizer.model", b"\x0a"),
        ("tokenizer.model", b"\xff" * 40),
        ("tokenizer.model", b"\x0a\x03\x0a\x01\xff"),
        ("tokenizer_config.json", b"[]"),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"x": 1}}'),
        ("chat_template.jinja", b"\xff\xfe"),
    ],
)
def test_a_malformed_vocabulary_is_named(tmp_path, path, data):
    source = checkpoint(tmp_path / "in", "llama")
    (source / path).write_bytes(data)

    with pytest.raises(InputError, match=path):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}},
        {"model": {"type": "BPE", "vocab": {"a": 1}, "merges": [1]}},
        {"added_tokens": [{"id": "x"}]},
        {"added_tokens": [5]},
    ],
)
def test_a_malformed_tokenizer_is_named(tmp_path, change):
    source = changed(checkpoint(tmp_path / "in", "llama3"), "tokenizer.json", **change)

    with pytest.raises(InputError, match=r"tokenizer\.json"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


def test_a_way_to_cut_text_that_llama_cpp_lacks_is_refused(tmp_path):
    source = checkpoint(tmp_path / "in", "llama3")
    changed(source, "tokenizer.json", pre_tokenizer={"type": "Whitespace"})

    with pytest.raises(UnsupportedError, match=r"pre-tokenizer of `tokenizer\.json`") as caught:
        planned(None, tmp_path / "out.gguf", "gguf", source=source)
    assert caught.value.hint.startswith("llama.cpp has to learn it")


def test_a_tensor_without_a_place_is_named(tmp_path):
    from tests.importer.builders import safetensors, write

    source = checkpoint(tmp_path / "in", "llama")
    write(source, {"model.safetensors": safetensors({"model.layers.0.odd": ("F32", (4,))})})

    with pytest.raises(UnsupportedError, match=r"model\.layers\.0\.odd"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


def test_experts_with_a_gap_are_an_error(tmp_path):
    from tests.importer.builders import safetensors, write

    source = checkpoint(tmp_path / "in", "mixtral")
    place = "model.layers.0.block_sparse_moe.experts"
    tensors = {f"{place}.{number}.w1.weight": ("F32", (4, 64)) for number in (0, 2)}
    write(source, {"model.safetensors": safetensors(tensors)})

    with pytest.raises(InputError, match="experts"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


@pytest.mark.parametrize("kind", ["bf16", "q4_0", "q3_k_m"])
def test_a_file_that_is_stored_whole_comes_out_byte_for_byte(store, tmp_path, kind):
    source = checkpoint(tmp_path / "in", "llama")
    path = tmp_path / "given" / "in.gguf"
    export(None, path, "gguf", source=source, q=kind)
    create(store, path)

    done = export(store, tmp_path / "out.gguf", "gguf")
    export(None, tmp_path / "given" / "beside.gguf", "gguf", source=path)

    assert done.left_out == ()
    assert (tmp_path / "out.gguf").read_bytes() == path.read_bytes()
    assert (tmp_path / "given" / "beside.gguf").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", MIXTURES["llama"])
def test_a_file_gets_other_types_as_llama_quantize_gives_them(store, tmp_path, kind):
    source = checkpoint(tmp_path / "in", "llama", shards=2)
    export(None, tmp_path / "in.gguf", "gguf", source=source, q="bf16")
    create(store, tmp_path / "in.gguf")

    export(store, tmp_path / "out.gguf", "gguf", q=kind)

    found = hashlib.sha256((tmp_path / "out.gguf").read_bytes()).hexdigest()
    assert found == GOLDEN["llama"]["sha256"][kind]


@pytest.mark.parametrize("kind", ["Q4_0", "Q5_1", "Q3_K_M", "Q8_0"])
@pytest.mark.parametrize("name", ["llama", "qwen2moe"])
def test_blocks_that_were_taken_out_of_a_file_come_out_as_they_were(
    store, tmp_path, name, kind
):
    source = checkpoint(tmp_path / "in", name)
    export(None, tmp_path / "in.gguf", "gguf", source=source, q=kind)
    create(store, tmp_path / "in.gguf", unpack=True)

    export(store, tmp_path / "out.gguf", "gguf")

    assert tensors(tmp_path / "out.gguf") == tensors(tmp_path / "in.gguf")


def tensors(path):
    """Name -> type, shape and bytes of every tensor of a file."""
    data = path.read_bytes()
    return {
        one.name: (one.kind.name, one.shape, data[one.offset : one.offset + one.nbytes])
        for one in read_file_header(find(path.name, path)).tensors
    }


def matrix(path, name, numbers=64):
    """Write an importance matrix for the experts, or the layers, of a checkpoint."""
    stack = "_exps" if name == "qwen2moe" else ""
    count = numbers * 3 if stack else numbers
    entries = [
        entry(
            f"blk.{block}.ffn_{word}{stack}.weight", 2, [float(n % 7 + 1) for n in range(count)]
        )
        for block in range(2)
        for word in ("gate", "up")
    ]
    path.write_bytes(dat(*entries, end=ended()))
    return str(path)


@pytest.mark.parametrize("name", ["llama", "qwen2moe"])
def test_an_importance_matrix_changes_what_it_names_and_nothing_else(tmp_path, name):
    source = checkpoint(tmp_path / "in", name)
    weights = matrix(tmp_path / "imatrix.dat", name)
    export(None, tmp_path / "a.gguf", "gguf", source=source, q="q4_1")
    export(None, tmp_path / "b.gguf", "gguf", source=source, q="q4_1", imatrix=weights)

    plain, weighted = tensors(tmp_path / "a.gguf"), tensors(tmp_path / "b.gguf")
    changed_ones = {one for one in plain if plain[one] != weighted[one]}
    stack = "_exps" if name == "qwen2moe" else ""
    expected = {f"blk.{n}.ffn_{word}{stack}.weight" for n in (0, 1) for word in ("gate", "up")}
    assert changed_ones == expected
    keys = told(tmp_path / "b.gguf")
    assert keys["quantize.imatrix.entries_count"] == 4
    assert keys["quantize.imatrix.chunks_count"] == 7
    assert keys["quantize.imatrix.dataset"] == "wiki.txt"


def test_a_matrix_of_another_model_is_an_error(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    weights = matrix(tmp_path / "imatrix.dat", "llama", numbers=32)

    with pytest.raises(InputError, match="of another model"):
        planned(None, tmp_path / "o", "gguf", source=source, q="q4_1", imatrix=weights)


def test_a_matrix_that_is_not_there_or_has_no_use_is_told(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    weights = matrix(tmp_path / "imatrix.dat", "llama")

    with pytest.raises(NotFoundError, match="absent"):
        planned(None, tmp_path / "o", "gguf", source=source, q="q4_1", imatrix="absent")
    for kind in ("f16", "q8_0", None):
        with pytest.raises(UsageError, match="without an importance matrix"):
            planned(None, tmp_path / "o", "gguf", source=source, q=kind, imatrix=weights)


def keys_and_tensors(path):
    """Keys of a file that are not lists, and its tensors in order."""
    header = read_file_header(find(path.name, path))
    return {key: one for key, one in told(path).items() if key.startswith("split.")}, [
        (one.name, one.nbytes) for one in header.tensors
    ]


def test_a_split_has_all_keys_in_its_first_file_and_counts_its_files(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "m.gguf", "gguf", source=source, q="q8_0")

    export(None, tmp_path / "out", "gguf", source=source, q="q8_0", shard_size=20_000)

    files = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in files] == [
        f"in-{number:05}-of-{len(files):05}.gguf" for number in range(1, len(files) + 1)
    ]
    assert len(files) > 2
    whole = tensors(tmp_path / "m.gguf")
    found, order = {}, []
    for number, path in enumerate(files):
        keys, inside = keys_and_tensors(path)
        assert keys == {
            "split.no": number,
            "split.tensors.count": len(whole),
            "split.count": len(files),
        }
        assert len(told(path)) > 10 or number
        assert sum(nbytes for _, nbytes in inside) <= 20_000 or len(inside) == 1
        found |= tensors(path)
        order += inside
    assert found == whole
    assert order == keys_and_tensors(tmp_path / "m.gguf")[1]


def test_a_tensor_above_the_limit_has_a_file_of_its_own(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")

    plan = export(None, tmp_path / "out", "gguf", source=source, q="f32", shard_size=1)

    assert len(plan.files) == len(plan.rows)


def test_a_file_and_a_model_give_the_same_split(store, tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "in.gguf", "gguf", source=source, q="q4_0")
    create(store, tmp_path / "in.gguf")

    export(None, tmp_path / "a", "gguf", source=source, q="q4_0", shard_size=30_000)
    export(store, tmp_path / "b", "gguf", shard_size=30_000)

    first, second = (sorted((tmp_path / one).iterdir()) for one in "ab")
    assert len(first) > 1
    assert [one.read_bytes() for one in first] == [one.read_bytes() for one in second]


def test_a_split_comes_out_as_it_is_or_as_one_file_of_another_type(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "in.gguf", "gguf", source=source, q="bf16")
    export(None, tmp_path / "in.split", "gguf", source=source, q="bf16", shard_size=60_000)
    files = sorted((tmp_path / "in.split").iterdir())

    export(None, tmp_path / "again", "gguf", source=files[1])
    export(None, tmp_path / "a.gguf", "gguf", source=files[0], q="q4_0")
    export(None, tmp_path / "b.gguf", "gguf", source=tmp_path / "in.gguf", q="q4_0")

    assert {one.name: one.read_bytes() for one in files} == {
        one.name: one.read_bytes() for one in (tmp_path / "again").iterdir()
    }
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_a_model_and_its_projector_come_out_as_they_were_stored(store, tmp_path):
    from importer.formats.gguf.metadata import Value
    from importer.formats.gguf.writer import encode_head

    place = tmp_path / "given"
    export(None, place / "in.gguf", "gguf", source=checkpoint(tmp_path / "in", "llama"))
    kind = {
        "general.architecture": Value("string", "clip"),
        "clip.has_vision_encoder": Value("bool", value=True),
    }
    (place / "mmproj-in.gguf").write_bytes(encode_head(kind, []))
    create(store, place)

    export(store, tmp_path / "out", "gguf")
    export(store, tmp_path / "q", "gguf", q="q4_0")

    found = {one.name: one.read_bytes() for one in (tmp_path / "out").iterdir()}
    assert found == {
        "m.gguf": (place / "in.gguf").read_bytes(),
        "mmproj-m.gguf": (place / "mmproj-in.gguf").read_bytes(),
    }
    assert (tmp_path / "q" / "mmproj-m.gguf").read_bytes() == found["mmproj-m.gguf"]
    assert (tmp_path / "q" / "m.gguf").read_bytes() != found["m.gguf"]


@pytest.mark.parametrize(
    ("dtype", "q", "lossy"),
    [
        ("BF16", None, []),
        ("F32", "f16", []),
        ("F32", None, ["16 tensors of F32 are rounded to F16"]),
    ],
)
def test_what_nobody_asked_to_be_rounded_is_told(tmp_path, dtype, q, lossy):
    source = checkpoint(tmp_path / "in", "llama", dtype=dtype)

    _, plan = planned(None, tmp_path / "out.gguf", "gguf", source=source, q=q)

    assert list(plan.write.lossy) == lossy
    if lossy:
        with pytest.raises(InputError, match="rounded"):
            planned(None, tmp_path / "strict.gguf", "gguf", source=source, strict=True)


def test_what_llama_cpp_has_no_use_for_is_told(tmp_path):
    import shutil

    from tests.importer.builders import safetensors

    source = checkpoint(tmp_path / "in", "gemma2")
    whole = planned(None, tmp_path / "a.gguf", "gguf", source=source)[1].write
    more = safetensors({"lm_head.weight": ("BF16", (320, 64))})
    shutil.move(source / "model.safetensors", source / "model-00001-of-00002.safetensors")
    (source / "model-00002-of-00002.safetensors").write_bytes(more)
    write = planned(None, tmp_path / "b.gguf", "gguf", source=source)[1].write

    assert whole.notes == ()
    assert [row.name for row in write.rows] == [row.name for row in whole.rows]
    (note,) = [one for one in write.notes if "llama.cpp" in one]
    assert note.startswith("`lm_head.weight` is left out")
