"""UQFF as a container: sets of shards, their version, and what is beside them."""

from __future__ import annotations

import shutil

import pytest

from importer.hub.files import needed_of, roles_of
from importer.sources.containers.uqff import Uqff
from importer.sources.cross_check import check_reference
from importer.sources.file import find
from importer.sources.inventory import read_inventory
from store import Store
from store.errors import InputError, UnsupportedError, UsageError
from tests.importer.builders import create, manifest_bytes, safetensors, write
from tests.importer.sources.schemes import uqff_sources as uqff

LAYER = uqff.entries("plain")
OTHER = uqff.entries("plain", "lm_head")
PRODUCER = {"uqff.producer": "mistral.rs", "uqff.version": "1.2.0"}


def names(found):
    return [tensor.name for tensor in found.tensors]


# Versions.


@pytest.mark.parametrize("minor", [0, 1, 2])
def test_known_versions_are_read(tmp_path, minor):
    uqff.model(tmp_path, LAYER, uqff.version(minor=minor, patch=9))

    assert names(read_inventory(tmp_path)) == [uqff.WEIGHT, "model.norm.weight"]
    assert read_inventory(tmp_path).metadata == {
        "q4k-0.uqff": {"uqff.version": f"1.{minor}.9"},
    }


def test_what_the_files_say_of_themselves_is_kept(tmp_path):
    uqff.model(tmp_path, LAYER)
    content = safetensors(uqff.version(minor=1) | LAYER, PRODUCER)
    write(tmp_path, {"q4k-0.uqff": content, "residual.safetensors": safetensors({}, PRODUCER)})

    # The metadata are informational: the scalars are what is believed.
    assert read_inventory(tmp_path).metadata == {
        "q4k-0.uqff": PRODUCER,
        "residual.safetensors": PRODUCER,
    }


KEYS = [f"uqff.version.{field}" for field in ("major", "minor", "patch")]
MAJOR, MINOR, PATCH = KEYS
BAD_VERSIONS = {
    "none": (InputError, dict.fromkeys(KEYS), "no version of UQFF"),
    "no major": (InputError, {MAJOR: None}, f"no `{MAJOR}`"),
    "no minor": (InputError, {MINOR: None}, f"no `{MINOR}`"),
    "no patch": (InputError, {PATCH: None}, f"no `{PATCH}`"),
    "in a list": (InputError, {MAJOR: uqff.u32(1)}, f"`{MAJOR}` is U32 [1], expected a scalar"),
    "of U8": (InputError, {MINOR: uqff.u8(1)}, f"`{MINOR}` is U8 []"),
    "of I32": (InputError, {PATCH: ("I32", (), bytes(4))}, f"`{PATCH}` is I32 []"),
    "2.0": (UnsupportedError, uqff.version(2), "UQFF 2.2.0, expected 1.0 to 1.2"),
    "0.1": (UnsupportedError, uqff.version(0), "UQFF 0.2.0, expected 1.0 to 1.2"),
    "1.3": (UnsupportedError, uqff.version(minor=3), "UQFF 1.3.0"),
    "largest": (UnsupportedError, uqff.version(2**32 - 1), "UQFF 4294967295.2.0"),
}


@pytest.mark.parametrize("name", BAD_VERSIONS)
def test_other_versions_are_refused(tmp_path, name):
    kind, changes, message = BAD_VERSIONS[name]
    uqff.model(tmp_path, LAYER)
    found = {key: one for key, one in (uqff.version() | changes).items() if one is not None}
    write(tmp_path, {"q4k-0.uqff": safetensors(found | LAYER)})

    with pytest.raises(kind) as caught:
        read_inventory(tmp_path)

    assert caught.value.code == "E_UQFF_VERSION"
    assert message in str(caught.value)
    assert "`q4k-0.uqff`" in str(caught.value)


def test_files_from_before_version_1_are_said_to_be_those(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"q4k-0.uqff": safetensors({"0": ("U8", (9,)), "1": ("U8", (9,))})})

    with pytest.raises(UnsupportedError, match=r"a UQFF file from before 1\.0"):
        read_inventory(tmp_path)


def test_another_shard_may_repeat_the_version(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"q4k-1.uqff": uqff.shard(OTHER)})

    assert names(read_inventory(tmp_path))[:2] == ["lm_head.weight", uqff.WEIGHT]


def test_another_shard_may_not_contradict_the_version(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"q4k-1.uqff": safetensors(uqff.version(minor=1) | OTHER)})

    with pytest.raises(InputError, match=r"is 1, and 2 in another shard"):
        read_inventory(tmp_path)


# Sets of shards.


def test_shards_are_one_model_which_any_of_them_names(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"q4k-1.uqff": safetensors(OTHER), "README.md": "", "a/b.txt": ""})
    found = [read_inventory(tmp_path / name) for name in (".", "q4k-0.uqff", "q4k-1.uqff")]

    assert names(found[0])[:2] == ["lm_head.weight", uqff.WEIGHT]
    assert found[0] == found[1] == found[2]
    assert [file.path for file in found[0].files] == ["README.md", "a/b.txt", "config.json"]
    assert found[0].left_out == ()


def test_a_directory_and_its_shard_make_the_same_model(tmp_path):
    source = uqff.FIXTURES / "qwen2-afq4"
    with Store(tmp_path) as store:
        create(store, source, "a")
        create(store, source / "afq4-0.uqff", "b")

        assert manifest_bytes(store, "a") == manifest_bytes(store, "b")


def test_a_set_may_be_one_file_of_any_name(tmp_path):
    uqff.model(tmp_path, LAYER)
    (tmp_path / "q4k-0.uqff").rename(tmp_path / "My Model.UQFF")

    assert names(read_inventory(tmp_path))[0] == uqff.WEIGHT


def test_one_of_several_sets_is_chosen(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"afq4-0.uqff": uqff.shard(OTHER)})

    with pytest.raises(UsageError, match=r"2 models: `afq4` \(\d+ B\), `q4k` \(") as caught:
        read_inventory(tmp_path)
    assert (caught.value.code, caught.value.exit_code) == ("E_SRC_VARIANTS", 2)
    for found in (
        read_inventory(tmp_path, "AFQ4"),
        read_inventory(tmp_path / "afq4-0.uqff"),
    ):
        assert names(found)[0] == "lm_head.weight"
        assert [(out.path, out.reason) for out in found.left_out] == [
            ("q4k-0.uqff", "the same model in another type")
        ]
    with pytest.raises(UsageError, match="no weights of variant `q4k`, the source has `afq4`"):
        read_inventory(tmp_path / "afq4-0.uqff", "q4k")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"residual.safetensors": None}, "`residual.safetensors` is missing"),
        ({"q4k-0.uqff": None, "q4k-1.uqff": uqff.shard()}, "1 shards are missing"),
        ({"q4k-2.uqff": uqff.shard()}, "1 shards are missing beside `q4k-0.uqff`: number 1"),
        ({"q4k-999999999.uqff": uqff.shard()}, "99999 shards are missing"),
        ({"q4k.uqff": uqff.shard()}, "`q4k.uqff` and `q4k-0.uqff` cannot both be"),
        ({"q4k-00.uqff": uqff.shard()}, "cannot both be the model"),
        ({"q4k-1.uqff": safetensors(LAYER)}, "is in `q4k-0.uqff` and in `q4k-1.uqff`"),
        (
            {"residual.safetensors": safetensors({uqff.WEIGHT: ("F32", (2, 65))})},
            "is in `q4k-0.uqff` and in `residual.safetensors`",
        ),
        (
            {"uqff_report.json": {"outputs": [{"shards": ["q4k-0.uqff", "q4k-1.uqff"]}]}},
            "`uqff_report.json` names shard `q4k-1.uqff`, which is missing",
        ),
        ({"uqff_report.json": "[]"}, "`uqff_report.json` is not a JSON object"),
        ({"q4k-0.uqff": b"PK\x03\x04" + bytes(60)}, "`q4k-0.uqff` is a zip archive"),
        ({"q4k-0.uqff": b""}, "`q4k-0.uqff`: 0 bytes"),
        ({"q4k-0.uqff": uqff.shard(LAYER)[:-1]}, "`q4k-0.uqff`"),
        ({"q4k-0.uqff": uqff.shard(LAYER) + b"x"}, "`q4k-0.uqff`"),
    ],
)
def test_incomplete_and_malformed_sets_are_refused(tmp_path, files, message):
    uqff.model(tmp_path, LAYER)
    for name, content in files.items():
        if content is None:
            (tmp_path / name).unlink()
        else:
            write(tmp_path, {name: content})

    with pytest.raises(InputError) as caught:
        read_inventory(tmp_path)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "report",
    [
        {"outputs": [{"shards": ["q4k-0.uqff"]}, {"shards": ["afq4-0.uqff"]}]},
        {"outputs": [{"shards": ["x-0.uqff", "x-1.uqff"]}]},
        {"outputs": [3, {"shards": 3}, {}]},
        {"outputs": None},
        {},
    ],
)
def test_a_report_of_these_shards_or_of_others_changes_nothing(tmp_path, report):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"uqff_report.json": report})

    assert names(read_inventory(tmp_path)) == [uqff.WEIGHT, "model.norm.weight"]


# Beside other weights.


def test_a_whole_model_in_safetensors_is_preferred_unless_a_shard_is_named(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"model.safetensors": safetensors({"w.weight": ("F32", (2,))})})

    whole, named = (read_inventory(tmp_path / name) for name in (".", "q4k-0.uqff"))

    assert names(whole) == ["w.weight"]
    assert {out.path for out in whole.left_out} == {"q4k-0.uqff", "residual.safetensors"}
    assert names(named) == [uqff.WEIGHT, "model.norm.weight"]
    assert [(out.path, out.reason) for out in named.left_out] == [
        ("model.safetensors", "weights in another format")
    ]


def test_other_weights_are_left_out_by_name(tmp_path):
    uqff.model(tmp_path, LAYER)
    write(tmp_path, {"lora.safetensors": safetensors({}), "m.gguf": b"", "tf_model.h5": b""})

    found = read_inventory(tmp_path)

    assert names(found) == [uqff.WEIGHT, "model.norm.weight"]
    assert {out.path for out in found.left_out} == {"lora.safetensors", "m.gguf", "tf_model.h5"}


def test_a_component_may_be_in_shards(tmp_path):
    write(tmp_path, {"modules.json": []})
    uqff.model(tmp_path, LAYER)
    write(
        tmp_path, {"2_Dense/model.safetensors": safetensors({"linear.weight": ("F32", (2, 2))})}
    )

    assert names(read_inventory(tmp_path)) == [
        "2_Dense/linear.weight",
        uqff.WEIGHT,
        "model.norm.weight",
    ]


# The Hub, and the other reader.


def test_a_download_takes_one_set_and_what_is_beside_it():
    paths = ["README.md", "afq4-0.uqff", "config.json", "q4k-0.uqff", "q4k-1.uqff"]
    roles = roles_of(sorted([*paths, "residual.safetensors", "uqff_report.json"]))

    needed = needed_of(roles, "x", "q4k", lambda path: path)

    assert needed.weights == {"q4k-0.uqff", "q4k-1.uqff", "residual.safetensors"}
    assert needed.kept == {"README.md", "config.json", "uqff_report.json"}


@pytest.mark.parametrize("name", ["types", "qwen2-afq4", "moe-q4_0"])
def test_a_plan_needs_only_the_bytes_that_are_fetched_for_it(tmp_path, name):
    source = tmp_path / "source"
    shutil.copytree(uqff.FIXTURES / name, source)
    expected = [one[:2] for one in read_inventory(source).tensors]
    (path,) = source.glob("*.uqff")
    data = path.read_bytes()
    sparse = bytearray(len(data))

    def read(start, end):
        sparse[start:end] = data[start:end]
        return data[start:end]

    Uqff().fetch_header(path.name, len(data), read)
    path.write_bytes(sparse)

    assert [one[:2] for one in read_inventory(source).tensors] == expected


@pytest.mark.parametrize(
    ("family", "changes", "count"),
    [
        ("afq", {"data": ("U32", (2, 1 << 15)), "group_size": uqff.u8(64)}, 1),
        ("q8_0", {"data": ("U8", (1 << 17,))}, 5),
    ],
)
def test_small_entries_that_lie_together_are_fetched_together(family, changes, count):
    # Of mistral.rs, which sorts by the size of elements, then by name.
    layers = [uqff.entries(family, f"{n}", **changes) for n in "abcd"]
    found = {name: one for layer in (uqff.version(), *layers) for name, one in layer.items()}
    order = sorted(found, key=lambda name: (found[name][0] == "U8", name))
    data = safetensors({name: found[name] for name in order})
    asked = []

    def read(start, end):
        asked.append(range(start, end))
        return data[start:end]

    Uqff().fetch_header("q4k-0.uqff", len(data), read)

    small = sum(map(len, asked[2:]))
    assert len(asked[2:]) == count
    assert small < 1000


def test_the_library_sees_the_same_arrays(tmp_path):
    found = read_inventory(uqff.model(tmp_path, LAYER, uqff.entries("hqq", "lm_head")))

    check_reference(found, lambda _: False)


def test_a_shard_that_lost_an_array_is_noticed(tmp_path):
    uqff.model(tmp_path, LAYER)
    file = find("q4k-0.uqff", tmp_path / "q4k-0.uqff")

    with pytest.raises(InputError, match=r"no longer has `x\.weight`"):
        Uqff().cross_check(file, {uqff.WEIGHT, "x.weight"})
