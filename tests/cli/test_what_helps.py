"""Mistakes that newcomers make, and the words that the answer has, or must not have."""

import shutil

import pytest

from tests.cli.runner import run
from tests.importer.builders import MODELS, model, write

LLAMA = MODELS / "tiny-llama"


@pytest.fixture(scope="module")
def place(tmp_path_factory, filled_store):
    """Things that a path may lead to; `store` and `other` are not at the usual place."""
    place = tmp_path_factory.mktemp("helps")
    store = shutil.copytree(filled_store, place / "store")
    run("create", "tl", LLAMA, store=store).succeeded()
    (place / "other").symlink_to(filled_store)
    model(place / "dir")
    write(place / "plain", {"notes.txt": b"x"})
    write(
        place,
        {
            "config.json": {"a": 1},
            "From": b"# a comment\nFROM tll\n",
            "Hub": b"FROM org/x\n",
            "Nowhere": b"FROM ./nowhere\n",
            "Adapter": b"FROM tl\nADAPTER tll\n",
            "Draft": b"FROM tl\nDRAFT tll\n",
            "Hot": b"FROM tl\nPARAMETER temperature hot\n",
            "Open": b'FROM tl\nSYSTEM """hello\n',
            "Template": b"FROM tl\nTEMPLATE {{ .Prompt }}{{ end }}\n",
            "Empty": b"FROM tl\nSYSTEM\n",
            "near.toml": b'[[model]]\nname = "m"\nsource = "tll"\n',
            "models.toml": b'[[model]]\nname = "m"\nsource = "tl"\n',
            "rules.toml": b'[[rules]]\nmatch = "*"\ntype = "int4"\n',
            "layers.toml": b'[[rule]]\nmatch = "*"\ntype = "int4"\nlayers = "more-bit"\n',
        },
    )
    return place


CALLS = {
    "cp kept --to {place}/plain": (2, ["with `--to`"], ["--store"]),
    "cp kept --from {place}/plain": (9, ["with `--from`"], ["--store", "INGOT_STORE"]),
    "cp kept --from {place}/nowhere": (9, ["with `--from`"], ["--store", "INGOT_STORE"]),
    "cp kept --from": (2, ["`--from` needs a value"], []),
    "cp kept --link": (2, ["TARGET is missing", "`--link` goes with `--from` or `--to`"], []),
    "cp nope --from {place}/other --store {place}/new": (
        9,
        ["`ingot list --store {store}`"],
        [],
    ),
    "rm x --store {place}/other": (9, ["`ingot list --store {store}`"], []),
    "show x --store {place}/other": (9, ["`ingot list --store {store}`"], []),
    "save x {place}/x.tar --store {place}/other": (9, ["`ingot list --store {store}`"], []),
    "show kept@0000 --store {place}/other": (9, ["`ingot list --history --store {store}`"], []),
    "create con {llama}": (2, ["reserved", "Windows", "another name"], ["80"]),
    "create nul.txt {llama}": (2, ["reserved", "Windows", "another name"], ["80"]),
    "create " + "a" * 200 + " {llama}": (2, ["it has 200 characters"], []),
    "create a\xa0b {llama}": (2, ["it has `\xa0`"], []),
    "create -- .b {llama}": (2, ["it begins with `.`"], []),
    "show ./dir": (2, ["`ingot create NAME ./dir`"], ["letters"]),
    "show {place}/dir": (2, ["`ingot create NAME {place}/dir`"], ["letters"]),
    "show {place}": (2, ["`ingot create NAME {place}`"], []),
    "pull hf:org/repo": (2, ["`ingot create NAME hf:org/repo`"], []),
    "pull hf.co/Org/Repo": (2, ["`ingot create NAME hf:Org/Repo`"], []),
    "pull hf.co/Org/Repo:Q4_K_M": (2, ["`ingot create NAME hf:Org/Repo:Q4_K_M`"], []),
    "list --store {place}/" + "x" * 300: (8, ["too long", "shorter"], ["dmesg"]),
    "create x {llama} --target-bpw 99": (2, ["`--target-bpw", "at most 64"], []),
    "create x {llama} --allow int4": (2, ["`--allow` belongs"], ["--sensitivity"]),
    "create x {llama} --symmetric": (2, ["`--symmetric` belongs"], ["--calibrate"]),
    "create x {llama} --calibrate mse": (2, ["`--calibrate` belongs"], ["--symmetric"]),
    "create x {llama} -q nvfp4 --symmetric": (2, ["symmetric already", "Leave it out"], []),
    "load {place}/dir": (3, ["`ingot save`"], []),
    "export kept {place}/x.gguf --to gguf -q q4_k --imatrix {place}/config.json": (
        3,
        ["`ingot imatrix`"],
        [],
    ),
    "--json list": (2, ["`ingot list --json`"], []),
    "--quiet list": (2, ["`ingot list --quiet`"], []),
    "list --history --sort size": (2, ["cannot be combined with"], ["goes without"]),
    "show kept -v --tree": (2, ["cannot be combined with"], ["goes without"]),
    "show kept --html x --json": (2, ["cannot be combined with"], ["goes without"]),
    "create mm tll": (9, ["Did you mean `tl:latest`?"], ["line"]),
    "create x -f From": (9, ["`From`, line 2: ", "Did you mean `tl:latest`?"], []),
    "create x -f Hub": (9, ["`Hub`, line 1: ", "Did you mean `hf:org/x`"], []),
    "create x -f Nowhere": (9, ["`Nowhere`, line 1: ", "or `hf:org/repo`"], []),
    "create x -f Adapter": (9, ["`Adapter`, line 2: ", "PEFT"], ["hf:", "in the store"]),
    "create x -f Draft": (9, ["`Draft`, line 2: ", "DRAFT"], ["hf:", "in the store"]),
    "sync near.toml": (9, ["`m:latest`", "Did you mean `tl:latest`?"], []),
    "sync models.toml --locked": (
        12,
        ["no lock `models.toml.lock`", "`ingot sync FILE`", "writes the lock"],
        [],
    ),
    "create x -f Hot": (3, ["Such as PARAMETER temperature 0.7"], []),
    "create x -f Open": (3, ["not closed", 'End it with """'], []),
    "create x -f Template": (3, ["TEMPLATE", "text/template"], []),
    "create x -f Empty": (3, ["SYSTEM has no value", "`ingot show NAME --modelfile`"], []),
    "create x {llama} --recipe rules.toml": (3, ["`rules`", "Did you mean `rule`?"], []),
    "create x {llama} --recipe layers.toml": (
        3,
        ["`more-bit`", "Did you mean `more-bits`?"],
        [],
    ),
    "verify kept --export nope": (
        9,
        ["no export at `nope`", "directory of an export"],
        ["checkpoint"],
    ),
    "export kept {place}/out --to hf --variant x": (
        2,
        ["`kept:latest`", "no variant `x`", "`--variant`"],
        [],
    ),
    "create x kept --variant x": (2, ["no variant `x`", "`--variant`"], []),
    "history": (2, ["brings one back"], []),
}
"""A command, its exit code, what its answer has, and what it does not have."""


@pytest.mark.parametrize("call", CALLS)
def test_the_answer_helps_with_the_mistake(place, filled_store, monkeypatch, call):
    code, has, lacks = CALLS[call]
    names = {"place": place, "llama": LLAMA, "store": filled_store}
    words = call.format(**names).split(" ")
    monkeypatch.chdir(place)

    outcome = run(*words, store=place / "store")
    if "--json" in words:
        text = f"{outcome.error['message']}\n{outcome.error['hint']}"
    else:
        text = outcome.failed(code)
    assert outcome.code == code

    assert [one.format(**names) for one in has if one.format(**names) not in text] == [], text
    assert [one for one in lacks if one in text] == [], text


def test_a_blank_in_a_name_is_called_one(store):
    assert "it has a blank" in run("create", "a b", LLAMA, store=store).failed(2)


def test_a_damaged_layer_is_named_and_how_to_mend_it(filled):
    license_ = f"FROM kept\nLICENSE {'mine ' * 9}\n"
    write(filled.parent, {"Licensed": license_.encode()})
    run("create", "mine", "-f", filled.parent / "Licensed", store=filled).succeeded()
    text = ("mine " * 9).strip().encode()
    (lost,) = [one for one in (filled / "blobs").iterdir() if one.read_bytes() == text]
    lost.unlink()

    told = run("show", "mine", store=filled)

    assert told.code == 5
    digest = lost.name.replace("-", ":")
    assert f"license (blob {digest}) is missing or has another size" in told.stderr
    assert f"`ingot verify mine:latest --repair --store {filled}`" in told.stderr


def test_a_damaged_manifest_is_listed_with_what_helps(filled):
    path = filled / "manifests/registry.ollama.ai/library/kept/latest"
    path.write_bytes(b"{")

    told = run("list", store=filled).succeeded().stderr

    assert "make the model again, or remove it: its name with `ingot rm`" in told


def test_a_model_that_is_named_twice_is_verified_once(filled):
    told = run("verify", "kept", "kept:latest", store=filled).succeeded()

    assert "verified 1 model," in told.stdout


def test_what_finds_nothing_to_do_is_said(store):
    call = ("create", "x", LLAMA, "--unpack", "--experts", "stacked")

    told = run(*call, "--json", store=store).succeeded().document["warnings"]

    assert any("nothing to unpack" in one for one in told)
    assert any("no experts to stack" in one for one in told)
    moe = ("create", "x", MODELS / "tiny-moe", "--experts", "stacked", "--json")
    assert not any("stack" in one for one in run(*moe, store=store).document["warnings"])
