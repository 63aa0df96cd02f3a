"""Streaming: when rounds start, what they decode, and which words they confirm."""
