"""Windows shorter than 30 s: a hush word after them, or blocks of a mask."""
