"""Alignments: preparation, statistics, input features of models, contact datasets."""
