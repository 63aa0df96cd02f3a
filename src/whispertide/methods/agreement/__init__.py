"""Confirming words that two rounds agree on: local agreement, and agreement in one decode."""
