"""The commands that the laboratory brings: bench, train and compress. One file for each, and what they share."""
