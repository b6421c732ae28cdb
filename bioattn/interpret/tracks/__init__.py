"""Attention along chromosomes: tracks and the tables of their exact values."""
