"""Running trained models on new input: batches in, predictions and attention out, memory flat, resumable."""
