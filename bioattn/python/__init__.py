"""The Python interface: `bioattn.load_model` and `bioattn.open`, and what they give."""
