"""Attention models on biological sequences.

The package is silent: it never prints, exits or reads the command line (that is `bioattn_cli`). Import the
module you need (`bioattn.promoters.windows`, `bioattn.models.promoter`, …): nothing heavy is loaded here.
"""

__version__ = "0.1.0"
