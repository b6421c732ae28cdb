"""Contacts of residues that attention speaks of."""
