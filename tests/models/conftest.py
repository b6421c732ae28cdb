"""What is not collected."""

collect_ignore = ["toy"]
"""A family that is imported as `bioattn.models.toy` only (`test_family.py`)."""
