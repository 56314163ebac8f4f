"""llama.cpp's converter and llama-quantize, and what the files that they write hold.

They are in the source distribution of llama-cpp-python, in vendor/llama.cpp:

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
from pathlib import Path

PROVENANCE = ("general.name", "general.basename", "general.finetune", "general.version")
"""Keys that the converter guesses from the name of a directory."""


class LlamaCpp:
    """A directory with llama.cpp's source, and one with its programs."""

    def __init__(self, source: Path, build: Path) -> None:
        """Load the converter."""
        sys.path[:0] = [str(source / "gguf-py"), str(source)]
        import conversion
        import gguf

        logging.disable(logging.WARNING)
        self.gguf, self._conversion, self.build = gguf, conversion, build
        conversion.load_all_models()
        self._base = conversion.base.ModelBase
        self._known = conversion.base.TextModel.get_vocab_base_pre

    def convert(
        self,
        directory: Path,
        path: Path,
        kind: str,
        pre: str | None = None,
        *,
        mmproj: bool = False,
    ) -> Path:
        """Write a file as convert_hf_to_gguf.py does.

        Args:
            directory: of the checkpoint.
            path: of the file.
            kind: `f32`, `f16`, `bf16`, `q8_0` or `auto`.
            pre: the name of the way in which the tokenizer cuts text, for one that was trained
                for a test, and has none of the hashes that the converter knows.
            mmproj: whether what sees is written, and not the model of text.
        """
        import torch

        types = self.gguf.LlamaFileType
        named = {"f32": types.ALL_F32, "auto": types.GUESSED}
        number = (
            named.get(kind) or types[f"MOSTLY_{kind.upper()}"]
            if kind != "f32"
            else types.ALL_F32
        )
        hparams = self._base.load_hparams(directory, False)
        types = self._conversion.ModelType
        part = types.MMPROJ if mmproj else types.TEXT
        cls = self._conversion.get_model_class(
            self._conversion.get_model_architecture(hparams, part), mmproj=mmproj
        )
        more = {}
        if hparams["model_type"] == "gpt_neox":
            # transformers 5 has it among the parameters of rope, where the converter fails.
            share = hparams["rope_parameters"]["partial_rotary_factor"]
            more["hparams"] = hparams | {"rotary_pct": share}
        if pre is not None:
            self._conversion.base.TextModel.get_vocab_base_pre = lambda *_: pre
        try:
            with torch.inference_mode():
                cls(directory, number, path, model_name=directory.name, **more).write()
        finally:
            self._conversion.base.TextModel.get_vocab_base_pre = self._known
        return path

    def quantize(self, source: Path, path: Path, kind: str, *words: str) -> Path:
        """Run llama-quantize."""
        self._run("llama-quantize", *words, source, path, kind, "2")
        return path

    def split(self, source: Path, prefix: Path, size: str) -> None:
        """Run llama-gguf-split."""
        self._run("llama-gguf-split", "--split-max-size", size, source, prefix)

    def _run(self, program: str, *words: str | Path) -> None:
        environment = os.environ | {"LD_LIBRARY_PATH": str(self.build)}
        argv = [self.build / program, *words]
        subprocess.run(argv, check=True, capture_output=True, env=environment)

    def read(self, path: Path) -> tuple[dict, dict]:
        """Return keys with types and values, and tensors with shape, type and digest.

        Both are in the order of the file.
        """
        reader = self.gguf.GGUFReader(path)
        keys = {
            field.name: ([kind.name for kind in field.types], field.contents())
            for field in reader.fields.values()
            if not field.name.startswith("GGUF.")
        }
        tensors = {
            one.name: (
                [int(size) for size in one.shape],
                one.tensor_type.name,
                hashlib.sha256(one.data.tobytes()).hexdigest()[:16],
            )
            for one in reader.tensors
        }
        return keys, tensors


def differences(found: tuple[dict, dict], expected: tuple[dict, dict]) -> list[str]:
    """Say how two files differ, but for what the converter guesses."""
    told = []
    keys, tensors = (
        {k: v for k, v in one[0].items() if k not in PROVENANCE} for one in (found, expected)
    )
    if list(keys) != list(tensors):
        told.append(f"keys {_first(list(keys), list(tensors))}")
    told += [
        f"{key}: {_short(keys[key])}, expected {_short(tensors[key])}"
        for key in keys
        if key in tensors and keys[key] != tensors[key]
    ]
    mine, theirs = found[1], expected[1]
    if list(mine) != list(theirs):
        told.append(f"tensors {_first(list(mine), list(theirs))}")
    told += [
        f"{key}: {mine[key]}, expected {theirs[key]}"
        for key in mine
        if key in theirs and mine[key] != theirs[key]
    ]
    return told


def _first(found: list, expected: list) -> str:
    lost = [one for one in expected if one not in found]
    more = [one for one in found if one not in expected]
    if lost or more:
        return f"lack {lost[:4]}, have {more[:4]} more"
    at = next(n for n, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
    return f"in another order from {at}: {found[at : at + 3]}, expected {expected[at : at + 3]}"


def _short(value: object) -> str:
    return repr(value)[:90]
