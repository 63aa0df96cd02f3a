"""Speech to text of `whispertide serve` for agent frameworks: `pipecat`, `livekit`. Each imports its framework."""
