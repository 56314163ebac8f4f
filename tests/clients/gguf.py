"""GGUF exports beside what llama.cpp's own programs write, and its logits beside transformers'.

Where llama.cpp is, the environment says: INGOT_LLAMA_CPP is a directory with its source
(convert_hf_to_gguf.py), INGOT_LLAMA_BUILD one with libllama and llama-quantize, and
INGOT_LLAMA_BINDINGS the directory `llama_cpp` of llama-cpp-python, all of 0.3.36. Without the
first there are no rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.clients import gguf_seeing, reference
from tests.clients.gguf_models import CLASSES, MODELS, save
from tests.clients.gguf_reference import LlamaCpp, differences

os.environ["TQDM_DISABLE"] = "1"  # before the converter imports it
ARCHITECTURES = (MODELS | gguf_seeing.MODELS) if "INGOT_LLAMA_CPP" in os.environ else {}
CONVERTED = ("f32", "f16", "bf16", "q8_0")
QUANTIZED = ("Q4_0", "Q5_1", "Q2_K", "Q3_K_M", "Q4_K_M", "Q6_K", "IQ4_XS", "TQ2_0", "MXFP4_MOE")
PRE = {"llama3": "llama-bpe", "qwen2": "qwen2", "glm": "qwen2", "wordpiece": "default"}
LOGITS = Path(__file__).with_name("llama_logits.py")


def check(name, place, ingot):
    """Yield way, number of tensors, how many differ, difference of logits, and problems."""
    source = place / name
    source.mkdir(parents=True)
    build = Path(os.environ.get("INGOT_LLAMA_BUILD", ""))
    llama_cpp = LlamaCpp(Path(os.environ["INGOT_LLAMA_CPP"]), build)
    if name in gguf_seeing.MODELS:
        gguf_seeing.save(name, source)
        yield from (seeing(kind, source, llama_cpp, ingot) for kind in CONVERTED)
        return
    save(name, source)
    for kind in CONVERTED:
        expected = place / f"{kind}.gguf"
        llama_cpp.convert(source, expected, kind, PRE.get(MODELS[name][2]))
        yield compared(kind, expected, place / name, llama_cpp, ingot)
    ingot.run("create", f"{name}-whole", place / "bf16.gguf")
    ingot.run("export", f"{name}-whole", place / "whole.gguf", "--to", "gguf")
    is_same = (place / "whole.gguf").read_bytes() == (place / "bf16.gguf").read_bytes()
    yield "gguf whole", 1, int(not is_same), None, []
    if "INGOT_LLAMA_BUILD" in os.environ:
        yield split(place, name, llama_cpp, ingot)
    for kind in QUANTIZED if "INGOT_LLAMA_BUILD" in os.environ else ():
        expected = place / f"{kind}.gguf"
        try:
            llama_cpp.quantize(place / "bf16.gguf", expected, kind)
        except subprocess.CalledProcessError as error:
            yield f"gguf {kind}", 0, 0, None, [own(error)]
            continue
        yield compared(kind, expected, place / name, llama_cpp, ingot)


def own(error):
    """What one of llama.cpp's programs said when it gave up."""
    said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
    return f"{error.cmd[0].name} itself: {said[-1][-60:]}"


def compared(kind, expected, source, llama_cpp, ingot):
    """Export in one type, and compare with the file that llama.cpp wrote."""
    out = expected.with_name(f"{kind}-ingot.gguf")
    ingot.run("export", source, out, "--to", "gguf", "-q", kind)
    found, wanted = llama_cpp.read(out), llama_cpp.read(expected)
    problems = differences(found, wanted)
    if not problems and out.read_bytes() != expected.read_bytes():
        problems = ["other bytes"]
    names = found[1].keys() | wanted[1].keys()
    differ = sum(found[1].get(one) != wanted[1].get(one) for one in names)
    logits = None
    continues = source.name not in CLASSES  # others have no logits
    if kind == "f32" and continues and "INGOT_LLAMA_BINDINGS" in os.environ:
        logits, said = distance(source, out, expected.with_name("logits.npy"))
        problems += said
    return f"gguf {kind}", len(names), differ, logits, problems


def seeing(kind, source, llama_cpp, ingot):
    """Export with the vision tower, and compare both files with those of the converter."""
    name, out = source.name, source.with_name(f"{kind}-ingot")
    ingot.run("export", source, out, "--to", "gguf", "-q", kind, "--mmproj")
    pre = PRE.get(gguf_seeing.MODELS[name][1])
    differ = 0
    for path, mmproj in ((f"{name}.gguf", False), (f"mmproj-{name}.gguf", True)):
        expected = llama_cpp.convert(
            source, source.with_name(f"{kind}-{path}"), kind, pre, mmproj=mmproj
        )
        differ += (out / path).read_bytes() != expected.read_bytes()
    return f"gguf {kind}, mmproj", 2, differ, None, []


def split(place, name, llama_cpp, ingot):
    """Export in several files, and compare with what llama-gguf-split makes of one."""
    theirs, mine = place / "split-llama.cpp", place / "split"
    theirs.mkdir()
    try:
        llama_cpp.split(place / "bf16-ingot.gguf", theirs / name, "1M")
    except subprocess.CalledProcessError as error:  # a tensor is larger than that
        return "gguf split", 0, 0, None, [own(error)]
    words = ("--to", "gguf", "-q", "bf16", "--split-max-size", "1MB")
    ingot.run("export", place / name, mine, *words)
    found, wanted = (
        {path.name: path.read_bytes() for path in one.iterdir()} for one in (mine, theirs)
    )
    names = found.keys() | wanted.keys()
    differ = sum(found.get(one) != wanted.get(one) for one in names)
    return "gguf split", len(names), differ, None, []


def distance(source, path, made):
    """The largest difference of logits to transformers', relative to the largest logit."""
    words = [os.environ["INGOT_LLAMA_BINDINGS"], os.environ["INGOT_LLAMA_BUILD"], path, made]
    argv = [sys.executable, LOGITS, *words, *reference.TOKENS]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    if done.returncode:
        return None, [f"llama.cpp itself: {done.stderr.strip()[-80:]}"]
    expected = reference.torch_logits(source)[0]
    return reference.largest(np.load(made), expected) / float(np.abs(expected).max()), []
