"""Designed promoters: whether they do what was asked for, and look like real ones."""
