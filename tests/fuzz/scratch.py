"""Where targets put the files that parsers read."""

import tempfile
from pathlib import Path

SCRATCH = Path(tempfile.mkdtemp(prefix="fuzz-"))
