"""All single mutants of a promoter through a `cross` model, computing only what a mutation changes."""
