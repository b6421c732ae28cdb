"""Running a promoter model: batches in, predictions and attention out."""
