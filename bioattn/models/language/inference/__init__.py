"""Running language models: scores, embeddings, attention, and new sequences."""
