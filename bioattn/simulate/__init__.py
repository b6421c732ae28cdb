"""Simulated inputs with known truth."""
