"""One self-contained HTML page of what a model found: inputs → sections (plain dataclasses) → page."""
