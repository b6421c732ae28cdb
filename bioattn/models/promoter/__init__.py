"""Conditional promoter models: stem, treatment encoder, conditioning, head."""
