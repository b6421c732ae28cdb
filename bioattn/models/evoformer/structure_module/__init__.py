"""The structure module: from single and pair representation to atoms (supplement, 1.8)."""
