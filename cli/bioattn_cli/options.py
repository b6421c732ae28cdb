"""Options and arguments that mean the same in several commands: fields, as those of a family's settings."""

from functools import partial
from typing import Any

from bioattn.choices import parse_heads
from bioattn.interpret.choices import WEIGHTS_HELP
from bioattn.io.settings import RUNNING, Writes, argument, option, output_option
from bioattn.models.attention_settings import DROP_PARTS_HELP, TREATMENT_HELP, TREATMENT_TABLE_HELP

OUTPUT = output_option("Result to write.", Writes.FILE)
FOLDER = output_option("Result to write.", Writes.FOLDER)
RESULT = output_option("Result to write.")
"""Checked by what writes it: several files, or a file or a folder."""
FILES = argument("FILE", "Any files or folders of bioattn.", exists=False)

# --- of commands that ask a promoter model for responses ---------------------------------------------------------

MODEL = argument("MODEL", "Folder of a trained promoter model.", recorded_file="model.safetensors")
PROMOTERS = argument("PROMOTERS", "Promoter FASTA (`bioattn prepare promoters`).")
PREDICTED_TREATMENTS = option(TREATMENT_HELP, default=(), metavar="NAME")
TREATMENT_TABLE = option(TREATMENT_TABLE_HELP)
DROP_PARTS = option(DROP_PARTS_HELP, default=False, group=RUNNING)

# --- choices in files of attention, attribution and structures ---------------------------------------------------

_choice = partial(option, group="Inputs")
GENES = _choice(
    "A gene, or a file with one id per line; can be repeated [default: all].", default=(), metavar="ID|FILE"
)
TREATMENTS = _choice("A treatment; can be repeated [default: all].", default=(), metavar="NAME")
AGAINST = _choice("Subtract the map of this treatment, or the `mean` over treatments.", metavar="NAME")
AVERAGED_SITES = _choice(
    "Attention sites to average, for example 'promoter.cross.0'; can be repeated [default: all].",
    default=(),
    metavar="PATTERN",
)
HEADS = _choice("Heads, for example 0,2 (counted from 0) [default: all].", metavar="LIST", parse=parse_heads)
VALUE_WEIGHTED: Any = option("Weights times the norm of the value, scaled to sum 1.", default=False)
WEIGHTS: Any = option(WEIGHTS_HELP, default=False)
SAMPLE = _choice("Which alignment [default: the only one].", metavar="ID")
CHAIN = _choice("Chain of the structure [default: the only one].", metavar="ID")
STRUCTURE_ALIGNMENT = _choice(
    "The alignment, to find the structure's columns where the target is another protein.", metavar="MSA"
)
