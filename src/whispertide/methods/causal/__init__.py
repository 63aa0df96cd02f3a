"""Sound that is encoded once, as it arrives, and text that grows with it: WhisperRT."""
