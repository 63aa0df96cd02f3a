"""Synthetic speech to train on: sentences from texts and patterns, read by many voices, with exact word times.

`sources` and `phrases` give what is written, `texts` draws from both, `reading` finds how it is said, `voices` draws
who says it, `speakers` and `festival` say it, `making` writes shards of it with all cores.
"""
