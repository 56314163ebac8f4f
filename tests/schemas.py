"""The schemas of the documents that `--json` prints, and of events: docs/schemas/*.json.

    python tests/schemas.py            name the schemas that do not describe what is printed
    python tests/schemas.py --write    write them again, from what a corpus of calls prints

A schema says of each field which types it has, and which fields are always there. Fields may
be added by a later version, so a schema admits others; `closed` gives one that does not, by
which a test finds a field that the schema lacks.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cli.views.evaluation import eval_document, imatrix_document
from importer.evaluation.importance import Measured
from importer.evaluation.outputs import Comparison, Cosine, Divergence
from importer.evaluation.text import Sequences
from store.fs import FileSystem
from tests.cli.runner import run
from tests.importer.builders import MODELS, REPOSITORY, model, write
from tests.registry.server import RegistryServer

SCHEMAS = REPOSITORY / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
FREE = {"recipe", "config"}
"""Documents of their own, which docs/formats/manifest.md describes, or another program's."""
NULLABLE = {"format", "not_quarantined", "parameters", "runs_in", "hint", "architecture"}
NULLABLE |= {"seconds_left"}
"""Fields that are null where a store is odd, beside those of which a page says so."""
MAPS = {"a", "b", "factors"}
"""Objects whose keys are data, such as types and names of tensors."""
NO_DIGEST = {"subject"}
"""Fields that are a digest in one case, and something else in others."""
_DOWN = "model.layers.0.mlp.down_proj.weight"
LLAMA, MOE, PIPELINE = (MODELS / f"tiny-{name}" for name in ("llama", "moe", "pipeline"))


class Printed(NamedTuple):
    """A document that a command printed.

    Attributes:
        schema: its name without `ingot.` and version.
        kind: which of the documents that share the schema.
    """

    schema: str
    kind: str
    document: dict


def corpus(place):  # noqa: PLR0915 - a list of calls
    """Yield what calls of every command print, in stores below a directory."""
    store, other, damaged = (place / name for name in ("store", "other", "damaged"))

    def call(kind, *words, at=store):
        done = run(*words, "--json", store=at)
        assert done.stdout, (words, done.stderr)
        return _printed(kind, done.stdout)

    yield call("a plan", "create", "m", LLAMA, "--dry-run")
    yield call("a result", "create", "m", LLAMA)
    yield call("a result", "create", "m", LLAMA, "-q", "int4", "--report")
    yield call("a result", "create", "moe", MOE, "-q", "nvfp4", "--report")
    yield call("a plan", "create", "moe", MOE, "-q", "int4", "--dry-run")
    yield call("a result", "create", "warned", MOE, "-q", "int4")
    save_file({_DOWN: np.arange(128, dtype=np.float32)}, place / "imatrix")
    words = ("-q", "int4", "--imatrix", place / "imatrix")
    yield call("a plan", "create", "weighed", LLAMA, *words, "--dry-run")
    yield call("a plan", "create", "m", LLAMA, "--target-bpw", "6", "--dry-run")
    yield call("a plan", "create", "m", LLAMA, "--target-size", "1GB", "--dry-run")
    yield call("a result", "create", "p", PIPELINE)
    yield call("a plan", "create", "p", PIPELINE, "-q", "int8", "--dry-run")
    for fixture in sorted(MODELS.iterdir()):
        if fixture.is_dir():
            yield call("a plan", "create", "x", fixture, "--dry-run", at=other)
    write(place, {"Modelfile": b"FROM m\nSYSTEM hello\nPARAMETER temperature 1\nLICENSE x\n"})
    words = ("create", "shrimp", "-f", place / "Modelfile")
    yield call("a plan of layers", *words, "--dry-run")
    yield call("a result of layers", *words)
    broken = model(place / "broken", {"a.weight": ("F32", (4, 64))})
    yield call("a result", "create", "broken", broken)
    for name in ("m", "moe", "p", "shrimp", "broken"):
        yield call("a model", "show", name)
    yield call("statistics", "show", "m", "--tensor", "*q_proj*")
    yield call("statistics", "show", "moe", "--tensor", "*")
    yield call("a tree", "show", "m", "--tree")
    yield call("quality", "show", "moe", "--quality")
    for part in ("recipe", "config", "license", "template", "parameters", "modelfile"):
        name = "shrimp" if part == "parameters" else "m"
        yield call("a text", "show", name, f"--{part}")
    yield call("a text", "show", "shrimp", "--system")
    yield call("models", "list")
    yield call("a copy", "cp", "m", "n")
    yield call("a copy", "cp", "moe", "n")
    yield call("a copy between stores", "cp", "moe", "--to", other)
    yield call("former models", "list", "--history")
    yield call("a difference", "diff", "m", "n")
    yield call("a difference", "diff", "m", "m")
    yield call("a difference", "diff", "m", LLAMA)
    yield call("use of space", "df")
    for to in ("hf", "mlx"):
        yield call("a plan", "export", "m", place / to, "--to", to, "--dry-run")
        yield call("a result", "export", "m", place / to, "--to", to)
    yield call("a report", "verify", "m", "--source", LLAMA)
    yield call("a report", "verify", "m", "--export", place / "hf")
    (place / "models.toml").write_text(f'[[model]]\nname = "m"\nsource = "{LLAMA}"\n')
    yield call("a list", "sync", place / "models.toml", "--dry-run")
    yield call("a list", "sync", place / "models.toml")
    warned = f'[[model]]\nname = "warned"\nsource = "{MOE}"\nquantize = "int4"\n'
    (place / "warned.toml").write_text(warned)
    yield call("a list", "sync", place / "warned.toml", "--dry-run", at=other)
    lock = json.loads((place / "models.toml.lock").read_text())
    yield Printed("lock", "a lock", lock)
    yield from _registry(place, call)
    yield from _damaged(store, damaged, call)
    yield call("what is removed", "rm", "m", "n")
    yield call("what is freed", "gc", "--dry-run")
    yield call("what is freed", "gc", "--yes")
    yield from _evaluated()
    done = run("show", "nothing", "--json", store=store)
    yield _printed("an error", done.stderr)
    small = ("create", "m", LLAMA, "--target-bpw", "6")
    report = ("create", "m", MOE, "-q", "int4", "--report")
    for words in (("create", "m", LLAMA), report, small):
        done = run(*words, "--progress", "json", "--quiet", store=other)
        for line in done.stderr.splitlines():
            if line.startswith("{"):
                yield _event(json.loads(line))
    done = run("sync", place / "models.toml", "--progress", "json", "--quiet", store=other)
    yield _event(json.loads(done.stderr.splitlines()[0]))


def _registry(place, call):
    """Yield what push, pull, save and load print."""
    server = RegistryServer()
    try:
        reference = f"{server.host}/me/m"
        yield call("a push", "push", "m", reference, "--dry-run")
        yield call("a push", "push", "m", reference)
        yield call("a pull", "pull", reference, "p", "--dry-run")
        yield call("a pull", "pull", reference, "p")
        yield call("a layout", "save", "m", place / "layout")
        yield call("models", "load", place / "layout")
        done = run("pull", reference, "--progress", "json", store=place / "pulled")
        for line in done.stderr.splitlines():
            if line.startswith("{"):
                yield _event(json.loads(line))
    finally:
        server.stop()


def _evaluated():
    """Yield what commands print that run models: torch need not be there to say it."""
    causal = Comparison(
        True, 2, 9, 5, (9.5, 9.6), Divergence(0.1, 0.2, 0.3), 0.7, Cosine(0.9, 0.8), None
    )
    encoder = Comparison(False, 2, 9, 5, None, None, None, Cosine(0.9, 0.8), Cosine(0.9, 0.8))
    for found, factors in ((causal, None), (encoder, {"a.weight": 1.5})):
        document = eval_document(("a", "b"), "text", found, factors)
        document = {"schema": "ingot.eval/1", **document}
        yield _printed("a comparison", json.dumps(document))
    measured = Measured(3, 1, ("a.weight",), 2)
    document = imatrix_document(Path("imatrix"), Sequences(((1, 2),), 2), measured)
    yield _printed("a result", json.dumps({"schema": "ingot.imatrix/1", **document}))


def _damaged(store, damaged, call):
    """Yield reports on a store whose blobs rot, and whose writers were killed."""
    shutil.copytree(store, damaged)
    here, _ = FileSystem().machine()
    for host in ("elsewhere", here):
        (damaged / "tmp" / f"{host}.boot.1.x").mkdir()
    for blob in sorted((damaged / "blobs").iterdir())[:2]:
        blob.chmod(0o600)
        blob.write_bytes(b"rot")
    yield call("a report", "verify", at=damaged)
    yield call("a report", "verify", "--repair", at=damaged)
    yield call("what is freed", "gc", "--dry-run", at=damaged)
    yield call("use of space", "df", at=damaged)
    yield call("models", "list", at=damaged)


def _printed(kind, text):
    document = json.loads(text)
    return Printed(document["schema"].removeprefix("ingot.").partition("/")[0], kind, document)


def _event(document):
    if document["event"] == "progress":
        # Nobody can tell in the first second, and on a quick machine there is no second one.
        document = {**document, "seconds_left": document["seconds_left"] or 3}
    return Printed("event", document["event"], document)


def inferred(found):
    """Give the schemas of documents, by name."""
    may_be_null = nullable()
    by_name = {}
    for one in found:
        by_name.setdefault(one.schema, {}).setdefault(one.kind, []).append(one.document)
    return {
        name: {
            "$schema": DIALECT,
            "title": f"ingot.{name}/1",
            "anyOf": [
                {"title": kind, **_schema(documents, may_be_null)}
                for kind, documents in sorted(kinds.items())
            ],
        }
        for name, kinds in sorted(by_name.items())
    }


def nullable():
    """Give the fields of which a page says that they may be null: no corpus has all cases."""
    pages = [
        *(REPOSITORY / "docs" / "commands").glob("*.md"),
        REPOSITORY / "docs" / "scripts.md",
    ]
    rows = [
        row
        for page in pages
        for row in page.read_text(encoding="utf-8").splitlines()
        if row.startswith("| `") and "null" in row
    ]
    return NULLABLE | {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def _schema(values, may_be_null, key=""):
    kinds = sorted(
        {_kind(value) for value in values} | ({"null"} if key in may_be_null else set())
    )
    if "integer" in kinds and "number" in kinds:
        kinds.remove("integer")
    if kinds == ["null"]:
        kinds = ["null", "string"]  # no call of the corpus has any
    found = {"type": kinds[0] if len(kinds) == 1 else kinds}
    texts = [value for value in values if isinstance(value, str)]
    if key in {"schema", "event"} and len(set(texts)) == 1:
        return {"const": texts[0]}
    if texts and key not in NO_DIGEST and all(map(DIGEST.fullmatch, texts)):
        found["pattern"] = f"^{DIGEST.pattern}$"
    elif texts and all(map(TIME.fullmatch, texts)):
        found["format"] = "date-time"
    objects = [value for value in values if isinstance(value, dict)]
    if objects and key in MAPS:
        inner = [value for one in objects for value in one.values()]
        found["additionalProperties"] = _schema(inner, may_be_null) if inner else {}
    elif objects and key not in FREE:
        names = list(dict.fromkeys(name for one in objects for name in one))
        found["properties"] = {
            name: _schema([one[name] for one in objects if name in one], may_be_null, name)
            for name in names
        }
        found["required"] = [name for name in names if all(name in one for one in objects)]
    lists = [item for value in values if isinstance(value, list) for item in value]
    if lists:
        found["items"] = _schema(lists, may_be_null, f"{key}[]")
    return found


def _kind(value):
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))
    for kind, name in kinds:
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "object"


def closed(schema):
    """Give a schema that admits no fields but those that it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and "required" in schema:
        inner["additionalProperties"] = False
    return inner


def written():
    """Give the schemas in docs/, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))}


def main():
    """Compare the schemas, or write them again."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write them again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = inferred(corpus(Path(place)))
    differ = sorted(name for name in found if found[name] != written().get(name))
    print(*(f"{name}: differs" for name in differ), sep="\n")
    if asked.write:
        SCHEMAS.mkdir(exist_ok=True)
        for name, schema in found.items():
            text = json.dumps(schema, indent=2) + "\n"
            (SCHEMAS / f"{name}.json").write_text(text, encoding="utf-8")
    return 1 if differ and not asked.write else 0


if __name__ == "__main__":
    sys.exit(main())
