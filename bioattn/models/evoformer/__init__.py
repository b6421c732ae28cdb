"""The MSA/pair model of AlphaFold 2, one layer per file, numbered as in its supplement."""
