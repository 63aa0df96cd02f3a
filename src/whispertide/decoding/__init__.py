"""Finds tokens in a window: searches, rules, guards, alignment. No I/O, no streaming."""
