"""Have mistral.rs write UQFF in each type, and hold our values against what it computes.

    .venv-zoo/bin/python tests/zoo/check_uqff.py [--keep DIR]

mistral.rs loads each model that it wrote, and the same model with every layer decoded by
ingot; it is asked for the odds of what comes next. Most types are decoded before they are
multiplied: equal values give equal odds, to the last bit. GGML's types are multiplied by
activations of 8 bits, and MXFP4 in pieces of 32 columns, so that these are near.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from importer.codecs.runtime import NUMPY
from importer.sources.file import opened, read_bytes
from importer.sources.inventory import read_inventory
from tests.importer.formats.uqff.mistral import odds, quantize
from tests.importer.formats.uqff.tiny_models import Sizes, write_model
from tests.zoo.judged import JudgedRow, note, versions

WAYS = {
    **dict.fromkeys(
        ("AFQ2", "AFQ3", "AFQ4", "AFQ6", "AFQ8"), ("qwen2", Sizes(64, 4, 2, 128), 0)
    ),
    **dict.fromkeys(("HQQ4", "HQQ8", "FP8", "F8Q8"), ("llama", Sizes(48, 4, 2, 96), 0)),
    "MXFP4": ("llama", Sizes(256, 4, 2, 256), 1e-3),
    **dict.fromkeys(
        ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"), ("qwen2", Sizes(64, 4, 2, 64), 0.1)
    ),
    **dict.fromkeys(("Q2K", "Q3K", "Q4K", "Q5K", "Q6K"), ("llama", Sizes(256, 4, 2, 256), 0.1)),
}
"""Each type with a model that it fits, and how far odds may be from each other."""
EXPERTS = ("qwen3_moe", Sizes(64, 4, 2, 64), 0.1)
ROW = "{:10}{:11}{:>8}{:>10}{:>16}  {}"


def values(tensor):
    """The values of a tensor, as bytes of its dtype."""
    elements = range(math.prod(tensor.shape))
    spans = tensor.decoder.spans(tensor.shape, elements)
    assert [span.nbytes for span in spans] == [array.nbytes for array in tensor.arrays]
    arrays = []
    for array in tensor.arrays:
        with opened(array.file) as descriptor:
            end = array.offset + array.nbytes
            arrays.append(read_bytes(array.file, descriptor, array.offset, end))
    return tensor.decoder.decode(arrays, tensor.shape, elements, NUMPY)


def decoded(source, target):
    """Write a model with every tensor decoded to float32, experts one by one."""
    found = {}
    tensors = read_inventory(source).tensors
    for tensor in tensors:
        data = np.frombuffer(values(tensor), {"F32": "<f4", "BF16": "<u2"}[tensor.dtype])
        if tensor.dtype == "BF16":
            data = (data.astype("<u4") << 16).view("<f4")
        data = data.reshape(tensor.shape)
        before, experts, after = tensor.name.partition(".experts.")
        names = {tensor.name: data}
        if experts:
            names = {f"{before}.experts.{n}.{after}": one for n, one in enumerate(data)}
        found |= {name: np.ascontiguousarray(one) for name, one in names.items()}
    target.mkdir()
    save_file(found, target / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, target)
    return sum(bool(tensor.stored_as) for tensor in tensors)


def distance(ours, theirs):
    """The largest difference of the odds of what comes first after each prompt."""
    pairs = [(one[0], other[0]) for one, other in zip(ours, theirs, strict=True)]
    return max(
        abs(one[t] - other[t]) for one, other in pairs for t in one.keys() & other.keys()
    )


def check(root, isq, kind, sizes, bound):
    """Check one type of one model, and print a row."""
    directory = root / f"{isq}-{kind}"
    source = write_model(directory / "source", kind, sizes)
    quantize(source, kind, directory / "uqff", isq)
    layers = decoded(directory / "uqff", directory / "decoded")
    theirs = odds(directory / "uqff", kind, f"{isq.lower()}-0.uqff")
    ours = odds(directory / "decoded", kind)
    found = distance(ours, theirs)
    # Where values are equal, so is all that is said.
    is_good = layers > 0 and found <= bound and (bound > 0 or ours == theirs)
    tokens = sum(map(len, theirs)) if not bound else len(theirs)
    print(ROW.format(isq, kind, layers, tokens, f"{found:.3g}", "" if is_good else "WRONG"))
    return layers if is_good else 0


def main():
    """Check every type, and say how many are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="write the models here, and leave them")
    keep = parser.parse_args().keep
    print(f"mistralrs {version('mistralrs')}")
    print(ROW.format("type", "model", "layers", "tokens", "odds differ by", ""))
    with tempfile.TemporaryDirectory() as folder:
        root = keep or Path(folder)
        rows = [(isq, *way) for isq, way in WAYS.items()]
        rows += [(isq, *EXPERTS) for isq in ("Q4_0", "Q8_0")]
        layers = [check(root, *row) for row in rows]
    wrong = layers.count(0)
    print(f"{len(rows)} models, {wrong} wrong")
    note(
        JudgedRow(
            "UQFF",
            ", ".join(dict.fromkeys(row[0] for row in rows)),
            versions("mistralrs"),
            "the odds that it gives for the decoded model; those of MXFP4 and GGML's types, "
            "which multiply rounded inputs, within 0.1",
            f"{len(rows)} models, {sum(layers)} layers",
            wrong,
        )
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
