"""The command network end to end: its files, graphs, model and search, and a stream of commands."""
