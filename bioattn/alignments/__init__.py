"""Alignments: what is known of them, what models are given of them, contact datasets."""
