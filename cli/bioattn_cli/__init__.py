"""The `bioattn` command: one file per verb; each parses its options, calls the library and reports."""
