"""The laboratory: making speech, training, measuring. It imports what runs, never the reverse; commands import it."""
