"""Confirming words by where the decoder attends: AlignAtt, tide, NPUsper's backward shift."""
