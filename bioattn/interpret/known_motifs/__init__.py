"""Do maps lie on the motifs that should answer to a condition? The table of `bioattn explain motifs`."""
