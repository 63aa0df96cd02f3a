"""Tuning to a checkpoint and a machine, and what a machine can do: for users, without transcripts."""
