"""Logits of llama.cpp, through the bindings of llama-cpp-python and a build of its library.

    PYTHON tests/clients/llama_logits.py BINDINGS BUILD MODEL.gguf OUT.npy TOKEN...

A process of its own: the library aborts where it cannot go on. BINDINGS is the directory
`llama_cpp` of llama-cpp-python, BUILD has libllama.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import types
from pathlib import Path

import numpy as np


def bindings(directory: Path, build: Path) -> types.ModuleType:
    """Load the bindings alone, without the package around them and what that needs."""
    os.environ["LLAMA_CPP_LIB_PATH"] = str(build)
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(directory)]
    sys.modules["llama_cpp"] = package
    spec = importlib.util.spec_from_file_location(
        "llama_cpp.llama_cpp", directory / "llama_cpp.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["llama_cpp.llama_cpp"] = module
    spec.loader.exec_module(module)
    return module


def logits(llama: types.ModuleType, path: Path, tokens: list[int]) -> np.ndarray:
    """Return the logits of every token, with a cache in F32."""
    llama.llama_backend_init()
    silent = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(silent, ctypes.c_void_p(0))
    asked = llama.llama_model_default_params()
    model = llama.llama_model_load_from_file(str(path).encode(), asked)
    if not model:
        message = f"llama.cpp does not load {path}"
        raise SystemExit(message)
    wanted = llama.llama_context_default_params()
    wanted.n_ctx, wanted.n_batch, wanted.n_ubatch = 64, 64, 64
    wanted.type_k = wanted.type_v = 0
    wanted.n_threads = wanted.n_threads_batch = 1
    wanted.flash_attn_type = 0
    context = llama.llama_init_from_model(model, wanted)
    batch = llama.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for place, token in enumerate(tokens):
        batch.token[place], batch.pos[place] = token, place
        batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
        batch.logits[place] = True
    if llama.llama_decode(context, batch):
        message = "llama.cpp does not decode"
        raise SystemExit(message)
    count = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    rows = (llama.llama_get_logits_ith(context, place) for place in range(len(tokens)))
    return np.stack([np.ctypeslib.as_array(row, (count,)).copy() for row in rows])


if __name__ == "__main__":
    where, library, file, out = map(Path, sys.argv[1:5])
    made = logits(bindings(where, library), file, list(map(int, sys.argv[5:])))
    np.save(out, made)
