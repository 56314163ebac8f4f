"""Have mistral.rs write UQFF, on a CPU and in bfloat16.

python tests/benchmarks/mistralrs_writer.py SOURCE DIRECTORY TYPE
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Write it."""
    import mistralrs

    source, directory, isq = sys.argv[1:]
    Path(directory).mkdir(parents=True)
    which = mistralrs.Which.Plain(
        model_id=source,
        dtype=mistralrs.ModelDType.BF16,
        write_uqff=str(Path(directory) / f"{isq.lower()}.uqff"),
    )
    mistralrs.Runner(which=which, in_situ_quant=isq, token_source="none", no_paged_attn=True)


if __name__ == "__main__":
    main()
