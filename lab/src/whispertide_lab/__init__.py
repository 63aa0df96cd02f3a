"""The laboratory: making speech, measuring, training, compressing. It imports what runs, never the reverse."""
