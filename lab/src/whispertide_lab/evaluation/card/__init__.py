"""Model cards: what is measured, kept, compared and written."""
