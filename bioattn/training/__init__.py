"""The training loop, metrics, baselines and checkpoints."""
