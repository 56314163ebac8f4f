"""Compare what make_packed.py wrote with what ingot decodes: a line for each checkpoint.

.venv/bin/python tests/zoo/check_packed.py DIR
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from importer.sources.inventory import read_inventory
from tests.importer.sources.schemes.decoding import digest_of
from tests.zoo.judged import JudgedRow, note

WRITERS = {
    "gptq": "GPTQModel 7.7.0",
    "awq": "GPTQModel 7.7.0",
    "autogptq": "AutoGPTQ 0.7.1",
    "autoawq": "AutoAWQ 0.2.9",
    **dict.fromkeys(("bnb", "nf4", "fp4", "llm"), "bitsandbytes 0.50.2"),
}
"""By what a name in golden.json begins with; tests/zoo/make_packed.py wrote with these."""
_SCHEMES = {"autogptq": "gptq", "autoawq": "awq", "nf4": "bnb", "fp4": "bnb", "llm": "bnb"}
"""Beginnings of names that are not a scheme's."""


def main() -> int:
    """Run the command line."""
    directory = Path(sys.argv[1])
    golden = json.loads((directory / "golden.json").read_text())
    wrong = 0
    written: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for name, expected in golden.items():
        found = {tensor.name: tensor for tensor in read_inventory(directory / name).tensors}
        packed = {tensor.name for tensor in found.values() if not tensor.is_plain}
        differ = [
            key
            for key, (dtype, digest) in expected.items()
            if digest_of(found[key], dtype) != digest
        ]
        wrong += len(differ) + (packed != expected.keys())
        types = ", ".join(sorted({found[key].stored_as for key in expected}))
        begun = name.partition("-")[0]
        row = written.setdefault((_SCHEMES.get(begun, begun), WRITERS[begun]), [])
        row.append((types, len(expected), len(differ)))
        print(f"{name:20} {len(expected)} tensors, {len(differ)} differ: {types}")
    for (_, writer), rows in written.items():
        types, counts, differing = zip(*rows, strict=True)
        note(
            JudgedRow(
                "safetensors",
                ", ".join(dict.fromkeys(types)),
                writer,
                "its dequantize, noted when they were written",
                f"{len(rows)} models, {sum(counts)} weights",
                sum(differing),
            )
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
