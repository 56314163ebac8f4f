"""What SOURCE means, which files of a repository are needed, and what the cache is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from importer.hub.files import needed_of, roles_of
from importer.sources.file import find
from importer.sources.hub_cache import enter_repository
from importer.sources.location import HubRepository, parse_source
from importer.sources.selection import visible
from importer.sources.tree import read_tree
from store.errors import InputError, NotFoundError, UnsupportedError, UsageError

MAIN = HubRepository("org/repo")
COMMIT, OTHER = "a" * 40, "b" * 40


@pytest.fixture
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.test:8080/prefix")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:org/repo", MAIN),
        ("hf://org/repo", MAIN),
        ("hf:org/repo@v1.0", HubRepository("org/repo", "v1.0")),
        ("hf:org/repo@refs/pr/7", HubRepository("org/repo", "refs/pr/7")),
        ("hf:org/repo@feature/x", HubRepository("org/repo", "feature/x")),
        (f"hf:Org.1/re_po-2@{COMMIT}", HubRepository("Org.1/re_po-2", COMMIT)),
        ("hf.co/org/repo", MAIN),
        ("hf.co/org/repo@dev", HubRepository("org/repo", "dev")),
        ("huggingface.co/org/repo", MAIN),
        ("https://huggingface.co/org/repo", MAIN),
        ("https://huggingface.co/org/repo/", MAIN),
        ("https://hf.co/org/repo/tree/main", MAIN),
        (
            "https://huggingface.co/org/repo/tree/dev?x=1#files",
            HubRepository("org/repo", "dev"),
        ),
        ("https://huggingface.co/org/repo/tree/a%2Fb", HubRepository("org/repo", "a/b")),
        ("http://hub.test:8080/prefix/org/repo/tree/dev", HubRepository("org/repo", "dev")),
    ],
)
@pytest.mark.usefixtures("somewhere")
def test_a_repository_has_many_spellings(text, source):
    assert parse_source(text) == source


@pytest.mark.parametrize(
    "text",
    [
        "hf:",
        "hf:repo",
        "hf:org/repo/file",
        "hf:org/repo@",
        "hf:org/repo@../../x",
        "hf:org/repo@a\x1bb",
        "hf:org/re po",
        "hf:org/--",
        "hf:../../etc",
        "hf:datasets/org/repo",
        "hf.co/org",
        "https://huggingface.co/datasets/org/repo",
        "https://huggingface.co/spaces/org/repo",
        "https://huggingface.co/org/repo/blob/main/model.safetensors",
        "https://huggingface.co/org/repo/tree/main/directory",
        "https://huggingface.co/org/repo/discussions",
        "https://example.org/org/repo",
        "ftp://huggingface.co/org/repo",
        "s3://bucket/key",
        "https://[huggingface.co/org/repo",
    ],
)
@pytest.mark.usefixtures("somewhere")
def test_what_names_no_model_on_the_hub_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_source(text)

    assert "hf:org/repo" in caught.value.hint
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["org/repo", "hf:org/repo", "hf.co/org/repo"])
def test_what_exists_is_a_path(somewhere, text):
    (somewhere / text).mkdir(parents=True)

    assert parse_source(text).resolve() == somewhere / text


def test_a_link_that_leads_nowhere_is_a_path(somewhere):
    (somewhere / "org").mkdir()
    (somewhere / "org" / "repo").symlink_to("nowhere")

    assert parse_source("org/repo").is_symlink()


@pytest.mark.usefixtures("somewhere")
def test_the_name_of_a_repository_alone_is_not_enough():
    with pytest.raises(NotFoundError) as caught:
        parse_source("org/repo")

    assert "`hf:org/repo`" in caught.value.hint


@pytest.mark.parametrize("text", ["model", "./org/repo", "/org/repo", "a/b/c", "org/", "."])
@pytest.mark.usefixtures("somewhere")
def test_everything_else_is_a_path_that_may_be_missing(text):
    assert parse_source(text) == Path(text)


# Which files are needed.

NAMES = st.sampled_from(
    [
        "config.json",
        "model.safetensors",
        "model.fp16.safetensors",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "diffusion_pytorch_model.safetensors",
        "consolidated.safetensors",
        "adapter_model.safetensors",
        "model_index.json",
        "modules.json",
        "pytorch_model.bin",
        "optimizer.pt",
        "README.md",
        "x.safetensors.index.json",
    ]
)
DIRECTORIES = st.sampled_from(["", "", "vae/", "unet/", "onnx/", ".cache/", "a/b/"])
PATHS = st.sets(st.builds(lambda directory, name: directory + name, DIRECTORIES, NAMES))
INDEX = json.dumps({"weight_map": {"tensor": "model-00001-of-00002.safetensors"}})


@given(paths=PATHS, variant=st.sampled_from([None, "fp16"]), data=st.data())
def test_what_is_not_needed_changes_nothing(tmp_path_factory, paths, variant, data):
    index = tmp_path_factory.getbasetemp() / "index.json"
    index.write_text(INDEX)

    def needed(those):
        seen, _ = visible(sorted(those))
        return needed_of(roles_of(seen), "x", variant, lambda path: find(path, index))

    try:
        first = needed(paths)
    except (InputError, UnsupportedError, UsageError):
        return
    others = data.draw(st.sets(st.sampled_from(sorted(paths))))

    assert first.everything <= paths
    assert needed(first.everything | others) == first


@given(paths=PATHS)
def test_hidden_directories_are_those_of_a_walk(tmp_path_factory, paths):
    directory = tmp_path_factory.mktemp("walk")
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).touch()

    tree = read_tree(directory)

    assert visible(sorted(paths)) == ([file.path for file in tree.files], tree.left_out)


# The cache.


def make_cache(directory, *commits, main=None):
    folder = directory / "models--org--repo"
    for commit in commits:
        snapshot = folder / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
    if main is not None:
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(main)
    return folder


def test_a_repository_of_the_cache_stands_for_main(tmp_path):
    folder = make_cache(tmp_path, COMMIT, OTHER, main=OTHER)

    assert read_tree(folder).root == folder / "snapshots" / OTHER


def test_a_repository_of_the_cache_stands_for_its_only_snapshot(tmp_path):
    folder = make_cache(tmp_path, COMMIT)

    assert read_tree(folder).root == folder / "snapshots" / COMMIT


@pytest.mark.parametrize(
    ("main", "said"),
    [
        (None, "no `refs/main`"),
        ("../../../etc", "no `refs/main`"),
        ("c" * 40, f"names `{'c' * 40}`"),
    ],
)
def test_several_snapshots_are_named(tmp_path, main, said):
    folder = make_cache(tmp_path, COMMIT, OTHER, main=main)

    with pytest.raises(InputError) as caught:
        enter_repository(folder)

    assert caught.value.code == "E_SRC_AMBIGUOUS"
    assert said in str(caught.value)
    assert COMMIT in str(caught.value)
    assert OTHER in str(caught.value)


def test_a_snapshot_that_main_does_not_mean_is_not_taken_for_it(tmp_path):
    folder = make_cache(tmp_path, COMMIT, main=OTHER)

    with pytest.raises(InputError):
        enter_repository(folder)


def test_a_repository_with_no_snapshot_says_so(tmp_path):
    folder = make_cache(tmp_path)
    (folder / "snapshots").mkdir(parents=True)

    with pytest.raises(InputError) as caught:
        enter_repository(folder)

    assert "there is no snapshot" in str(caught.value)


def test_other_directories_stand_for_themselves(tmp_path):
    (tmp_path / "models--org--repo").mkdir()
    (tmp_path / "model" / "snapshots").mkdir(parents=True)

    for directory in (tmp_path, tmp_path / "models--org--repo", tmp_path / "model"):
        assert enter_repository(directory) == directory
