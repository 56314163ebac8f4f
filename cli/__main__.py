"""`python -m cli`, the same as `ingot`."""

from cli import main

main()
