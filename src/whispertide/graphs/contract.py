"""What the graph files promise to those who run them, apart from tensor names (see `encoder` and `decoder`)."""

TOP = 10  # candidates per distribution that the decoder graph returns: twice the customary beam of 5
MASKED = -1e30  # what a bias holds where attention is forbidden; finite, because a fully masked row must not be nan
MASKED_HALF = -6e4  # the same within fp16's range
VERSION = 3  # raise when a graph changes, so that cached files are built anew


def masked_value(precision: str) -> float:
    """What a bias holds where attention is forbidden, in a model that computes in that precision."""
    return MASKED_HALF if precision == "fp16" else MASKED
