"""Phyloformer: evolutionary distances from an alignment, by axial attention over sites and pairs of sequences."""
