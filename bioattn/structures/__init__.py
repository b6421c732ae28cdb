"""Protein structures: residues and their atoms, contacts, distances, ideal geometry."""
