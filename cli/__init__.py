"""Words, flags, colours and exit codes."""
