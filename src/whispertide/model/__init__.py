"""Typed sessions over the graphs: arrays in, arrays out, no rules and no policy."""
