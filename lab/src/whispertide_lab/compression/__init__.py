"""Smaller checkpoints: palettes, outliers apart, bits per layer by measured sensitivity (WhisperKit, 2.2.2)."""
