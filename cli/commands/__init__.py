"""One file a command: parse, one call, print."""
