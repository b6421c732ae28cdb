"""Whether a model's attention may be believed: checks on the user's own model and data, and their verdict."""
