"""The one attention operator: scoring functions, sites and capture."""
