"""Have mistral.rs write tiny models, and note the digests of all arrays.

    .venv-zoo/bin/python tests/importer/exports/make_uqff_golden.py

`fixtures/uqff/written.json` has what test_uqff.py expects of an export.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tests.importer.exports.uqff_checkpoints import CASES, TARGET, checkpoint, digests
from tests.importer.formats.uqff.mistral import quantize


def main():
    """Write the digests anew."""
    golden = {"mistralrs": version("mistralrs")}
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, _, types) in CASES.items():
            source = checkpoint(Path(folder) / name, name)
            for isq in types:
                target = Path(folder) / f"{name}-{isq}"
                quantize(source, kind, target, isq)
                golden[f"{name} {isq}"] = digests(target)
    TARGET.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
