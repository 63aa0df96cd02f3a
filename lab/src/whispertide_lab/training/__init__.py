"""Making checkpoints. Nothing of the runtime imports this; what needs torch says so in its module."""
