"""Training of diffusion models."""
