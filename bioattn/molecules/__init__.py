"""Molecules: reading and cleaning (RDKit), graphs, fingerprints, the dataset file, Tanimoto."""
