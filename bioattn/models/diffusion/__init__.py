"""Diffusion models: promoters for chosen treatments."""
