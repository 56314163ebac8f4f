"""Have llama.cpp's converter write GGUF, with a tokenizer that it does not know.

python tests/benchmarks/llama_converter.py LLAMA_CPP SOURCE FILE TYPE

LLAMA_CPP is a directory with convert_hf_to_gguf.py. Nothing but the name of the way in which
text is cut is told: the converter finds that by a hash, and knows none of tokenizers for tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Write it."""
    os.environ["TQDM_DISABLE"] = "1"
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.clients.gguf_reference import LlamaCpp

    llama_cpp, source, path, kind = sys.argv[1:]
    LlamaCpp(Path(llama_cpp), Path()).convert(Path(source), Path(path), kind, "llama-bpe")


if __name__ == "__main__":
    main()
