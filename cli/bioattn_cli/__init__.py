"""The `bioattn` command: parses options, calls the library and reports."""
