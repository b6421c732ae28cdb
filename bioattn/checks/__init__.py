"""whether a model's attention can be believed: checks on the user's own model and data, and their verdict."""
