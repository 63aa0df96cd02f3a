"""Dictation: confirmed words and spoken commands become strokes of a keyboard.

composer   confirmed words -> strokes; pure
commands   the phrases that are commands, with a file of the user's
chords     keys that are pressed together, such as ctrl+alt+space
strokes    what a keyboard is asked to do
switch     a hotkey switches dictation on and off
keyboard   the seam to what types: `x11`, `wayland`, `desktop` (macOS, Windows), `printed`
"""
