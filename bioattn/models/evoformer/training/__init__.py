"""Training the MSA/pair stack on alignments with known structures: samples, losses, the loop, the model folder."""
