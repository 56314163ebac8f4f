"""`python -m cli`, the same as `ingot`."""

from cli.main import main

main()
