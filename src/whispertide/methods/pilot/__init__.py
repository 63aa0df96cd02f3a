"""Pilots that decode while somebody speaks, and the utterances that a server hears: pilot inference."""
