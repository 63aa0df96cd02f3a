"""The command line: parses, runs a session, renders its events. `main` puts the commands together."""
