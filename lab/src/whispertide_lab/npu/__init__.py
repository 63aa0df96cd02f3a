"""Static graphs for NPUs, as NPUsper has them (docs/npu.md): how they are built, and how they run."""
