"""Keep the server's memory from growing: large blocks are mapped one by one and given back when they are freed.

glibc maps a large piece of memory by itself, and unmaps it when it is freed. But whenever such a piece is freed, its
size becomes the new limit (mallopt(3), M_MMAP_THRESHOLD), up to 32 MiB. From then on pieces of that size lie in the
heap, between small ones that live longer. What is freed there leaves gaps too small for the next large piece, and the
heap grows with every connection. asyncio alone asks for 256 KiB whenever it reads.
"""

import ctypes

_MMAP_THRESHOLD = -3  # its number in malloc.h
LARGE = 64 * 1024  # bytes; glibc itself begins at 128 KiB, and with that 10^6 frames of `fuzz` took 1.5 % more


def map_large_pieces() -> bool:
    """Set that limit, for good. False if the C library has none: it is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS and musl have no such function; Windows has no such library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE))
