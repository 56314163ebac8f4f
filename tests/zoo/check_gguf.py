"""Check GGUF files that llama.cpp's converter makes, taken apart, against what it was given.

    PYTHON tests/zoo/check_gguf.py LLAMA_CPP [--only NAME]

PYTHON has torch, transformers, sentencepiece, protobuf and tokenizers; LLAMA_CPP is what
tests/zoo/gguf_converter.py speaks of. For each model: names, shapes and values of the F32
and of the Q8_0 file, and the logits of what transformers loads of the first. Then the
vocabularies that llama.cpp has with texts, and the tokens that Hugging Face's tokenizers make.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

from importer.codecs.reference.matrices import to_f32
from importer.codecs.runtime import NUMPY
from importer.formats.gguf_names.tokenizer import tokenizer_json
from importer.sources.containers import FORMATS
from importer.sources.containers.gguf import read_file_header
from importer.sources.containers.gguf_facts import facts_of, vocabulary_of
from importer.sources.file import find, opened, read_bytes
from importer.sources.inventory import Inventory, read_inventory
from importer.sources.roles import role_alone
from tests.zoo.gguf_converter import Converter, save
from tests.zoo.gguf_models import GGUF_MODELS
from tests.zoo.judged import JudgedRow, million, note, versions

COMPUTED = 1.3e-7
"""How far norms and A_log may be off, relative to the larger of 1 and the value."""
LOGITS = 1e-6
LOST = ("pooler.dense.weight", "pooler.dense.bias")
NOT_TOLD = {
    "glm",  # its epsilon of 1.5625e-07 is not a number of F32
    "qwen3-moe-twelve",  # norm_topk_prob, which all real ones have and this has not
}
SEPARATOR = "\n__ggml_vocab_test__\n"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("llama_cpp", type=Path, metavar="LLAMA_CPP")
    parser.add_argument("--only", choices=sorted(GGUF_MODELS), metavar="NAME")
    arguments = parser.parse_args()
    converter = Converter(arguments.llama_cpp)
    bad = count = texts = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, specimen in GGUF_MODELS.items():
            if arguments.only in {None, name}:
                told, is_bad = check(name, specimen, Path(scratch) / name, converter)
                print(f"{name:18} {told}", flush=True)
                bad += is_bad
                count += int(told.split()[0])
    if arguments.only is None:
        for path in sorted((arguments.llama_cpp / "models").glob("*.gguf")):
            told, is_bad = check_vocabulary(path)
            print(f"{path.stem:26} {told}", flush=True)
            bad += is_bad
            texts += int(told.split()[0]) if " texts, " in told else 0
        note(
            JudgedRow(
                "GGUF",
                "F32 and Q8_0, taken apart; vocabularies",
                "the converter of llama.cpp",
                f"the checkpoint, logits of {versions('transformers')}, tokens of tokenizers",
                f"{len(GGUF_MODELS)} models, {million(count)} tensors, {texts} texts",
                bad,
            )
        )
    print(f"{bad} differ")
    return 1 if bad else 0


def check(name: str, specimen: Any, directory: Path, converter: Converter) -> tuple[str, bool]:
    """Convert one model, take it apart, and say what differs."""
    save(name, specimen.architecture, dict(specimen.config), directory)
    want = {
        key: tensor.float().numpy()
        for file in directory.glob("*.safetensors")
        for key, tensor in load_file(file).items()
    }
    exact = read_inventory(converter.convert(directory, "f32"))
    values = {tensor.name: decoded(tensor) for tensor in exact.tensors}
    lost = [key for key in want if key not in values and key not in LOST]
    more = [key for key in values if key not in want]
    wrong = [key for key in values.keys() & want if not same(values[key], want[key])]
    packed = read_inventory(converter.convert(directory, "q8_0"))
    rough = [
        tensor.name
        for tensor in packed.tensors
        if not near(decoded(tensor), want.get(tensor.name, np.zeros(0)))
    ]
    told, is_off = logits(exact, values, specimen.architecture, directory)
    is_bad = bool(lost or more or wrong or rough) or (is_off and name not in NOT_TOLD)
    found = {"lost": lost, "more": more, "differ": wrong, "rough": rough}
    shown = {key: value[:3] for key, value in found.items() if value}
    return f"{len(values):4} tensors  {told}  {shown or ''}", is_bad


def decoded(tensor: Any) -> np.ndarray:
    """Return a tensor's values as F32."""
    whole = range(math.prod(tensor.shape))
    arrays = []
    spans = tensor.decoder.spans(tensor.shape, whole)
    for array, span in zip(tensor.arrays, spans, strict=True):
        with opened(array.file) as descriptor:
            starts = (array.offset + span.begin + run * span.stride for run in range(span.runs))
            pieces = [read_bytes(array.file, descriptor, at, at + span.run) for at in starts]
        arrays.append(b"".join(pieces))
    made = tensor.decoder.decode(arrays, tensor.shape, whole, NUMPY)
    return to_f32(made, tensor.dtype).view("<f4").reshape(tensor.shape)


def same(found: np.ndarray, want: np.ndarray) -> bool:
    """Return whether values are equal, or as near as what was computed can be."""
    if found.shape != want.shape:
        return False
    bound = np.maximum(np.abs(want), 1) * COMPUTED
    return bool(np.array_equal(found, want) or (np.abs(found - want) <= bound).all())


def near(found: np.ndarray, want: np.ndarray) -> bool:
    """Return whether values are those of Q8_0: within half of a 127th of the largest."""
    if found.shape != want.shape:
        return False
    largest = np.abs(want).max(initial=0)
    return bool((np.abs(found - want) <= largest / 127 * 0.51 + largest * 2e-3).all())


def logits(
    inventory: Inventory, values: dict[str, np.ndarray], architecture: str, directory: Path
) -> tuple[str, bool]:
    """Load what came out with transformers, and compare it with the source."""
    config = inventory.configs.get("")
    if config is None:
        return "no config.json", False
    apart = directory / "apart"
    apart.mkdir()
    (apart / "config.json").write_text(json.dumps(config))
    tensors = {key: torch.from_numpy(value.copy()) for key, value in values.items()}
    save_file(tensors, apart / "model.safetensors", metadata={"format": "pt"})
    ours = config["architectures"][0]
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    first = getattr(transformers, architecture).from_pretrained(directory, **options).eval()
    second = getattr(transformers, ours).from_pretrained(apart, **options).eval()
    torch.manual_seed(0)
    ids = torch.randint(3, 100, (2, 24))
    given = {"input_ids": ids}
    if hasattr(second, "decoder"):
        given["decoder_input_ids"] = ids[:, :5]
    with torch.no_grad():
        one, two = first(**given)[0], second(**given)[0]
    off = ((one - two).abs().max() / one.abs().max()).item()
    return f"{ours:30} logits {off:.0e}", not off <= LOGITS


def check_vocabulary(path: Path) -> tuple[str, bool]:
    """Compare the tokenizer of a real vocabulary with what Hugging Face's made of texts."""
    with path.open("rb") as stream:
        role = role_alone(path.name, stream.read(512), FORMATS)
    file = find(path.name, path, role)
    header = read_file_header(file)
    words = vocabulary_of(file, header)
    text = words if isinstance(words, str) else tokenizer_json(facts_of(file, header), words)
    if isinstance(text, str):
        return f"no tokenizer.json: {text}", False
    tokenizer = tokenizers.Tokenizer.from_str("".join(text))
    given, made = path.with_name(f"{path.name}.inp"), path.with_name(f"{path.name}.out")
    if not given.exists():
        return "loaded", False
    texts = given.read_bytes().decode().split(SEPARATOR)
    lines = made.read_text().splitlines()
    differ = sum(
        tokenizer.encode(one, add_special_tokens=False).ids != [int(n) for n in line.split()]
        for one, line in zip(texts, lines, strict=False)
    )
    return f"{len(lines)} texts, {differ} differ", bool(differ)


if __name__ == "__main__":
    raise SystemExit(main())
