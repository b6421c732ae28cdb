"""Tests whether maps lie on the motifs that should respond to a condition (`bioattn explain motifs`)."""
