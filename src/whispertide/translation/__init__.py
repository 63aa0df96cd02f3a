"""Finished sentences in another language, or corrected, by another model: next to captions, never before them."""
