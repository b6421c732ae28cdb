"""Running a Phyloformer model: distances and trees of alignments."""
