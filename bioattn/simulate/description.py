"""What can be chosen when inputs are simulated, and what `bioattn inspect` says of simulations.

Nothing here imports NumPy.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json
from bioattn.text import counted, some

FAMILIES_FORMAT = "bioattn-simulated-families"
MOLECULES_FORMAT = "bioattn-simulated-molecules"
PAIRS_FORMAT = "bioattn-simulated-pairs"
PROMOTERS_FORMAT = "bioattn-simulated-promoters"
SEQUENCES_FORMAT = "bioattn-simulated-sequences"
TREES_FORMAT = "bioattn-simulated-trees"
INDEX = "simulation.json"


class Difficulty(StrEnum):
    """Which of the two published sets of promoters is made."""

    STANDARD = "standard"
    HARD = "hard"


class Rule(StrEnum):
    """When the motifs of a treatment make a promoter respond to it."""

    ANYWHERE = "anywhere"
    """One motif, wherever it stands."""
    NEAR = "near"
    """The motif of another treatment, near the gene only."""
    FAR = "far"
    """The motif of another treatment, far from the gene only."""
    OPPOSITE = "opposite"
    """Two motifs, one raises and one lowers; the other treatment of the couple answers the other way round."""
    PAIR = "pair"
    """Two motifs that are both needed."""


def describe_simulation(path: Path) -> dict[str, Any]:
    """The main figures of the folder of a simulation, or of its `simulation.json`.

    Raises: FormatError when the JSON lacks them, or a file that it speaks of is missing in the folder.
    """
    index = path / INDEX if path.is_dir() else path
    content = read_json(index)
    try:
        figures, files = _described(content)
        figures = {"format_version": content["format_version"], **figures}
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{index}: is incomplete ({error!r})") from error
    # A file may be compressed.
    missing = [name for name in files if not any((path / f"{name}{end}").is_file() for end in ("", ".gz"))]
    if missing and path.is_dir():
        more = f" and {counted(len(missing) - 1, 'more file')}" if len(missing) > 1 else ""
        raise FormatError(f"{path}: {missing[0]}{more} of the simulation missing; simulate it again")
    return figures


def _described(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Main figures, and the files of the folder."""
    kind = content["format"]
    if kind == FAMILIES_FORMAT:
        names = [family["id"] for family in content["families"]]
        groups = len({family["group"] for family in content["families"]})
        files = [
            name for id in names for name in (f"msa/{id}.a3m", f"structure/{id}.pdb", f"contacts/{id}.tsv")
        ]
        return {"seed": content["seed"], "families": some(names), "groups": groups}, ["PAIRS.tsv", *files]
    if kind == PROMOTERS_FORMAT:
        shown = {name: some(list(content[name])) for name in ("motifs", "treatments")}
        files = [
            "genome.fa",
            "annotation.gff3",
            "responses.tsv",
            "treatments.tsv",
            "truth.tsv",
            "motifs.meme",
        ]
        return {"settings": content["settings"], **shown}, files
    if kind == SEQUENCES_FORMAT:
        return {"settings": content["settings"]}, ["sequences.fa", "truth.tsv"]
    if kind == TREES_FORMAT:
        return {name: content[name] for name in ("seed", "count", "alphabet")}, ["PAIRS.tsv"]
    said = {name: value for name, value in content.items() if not name.startswith("format")}
    if kind == MOLECULES_FORMAT:
        return said, ["molecules.tsv", "truth.tsv"]
    return said, ["source.fa", "target.fa", "alignment.tsv"]
