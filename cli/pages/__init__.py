"""Pages: what `show --html` writes, one self-contained document."""
