"""Static graphs for NPUs, as NPUsper has them (lab/docs/npu.md): how they are built, and how they run."""
