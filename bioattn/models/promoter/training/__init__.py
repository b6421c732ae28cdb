"""Training promoter models, and what they are compared with."""
