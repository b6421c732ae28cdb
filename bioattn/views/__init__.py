"""Readers of results that figures, reports and MultiQC share: one for each kind of result."""
