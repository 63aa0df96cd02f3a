"""How tokens are found in a window: searches, rules, guards, alignment. No I/O, no streaming."""
