"""Published language models: Hugging Face folders, read and written."""
