"""Readers and writers of the field's files."""
