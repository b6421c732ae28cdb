"""What `inspect` says of simulations, by their `simulation.json`."""

from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.store.description import some
from bioattn.text import counted

SIMULATIONS = {
    "bioattn-simulated-families": "simulated-families",
    "bioattn-simulated-promoters": "simulated-promoters",
}
"""Kinds of file by the format that the JSON names."""
_PROMOTER_FILES = (
    "genome.fa",
    "annotation.gff3",
    "responses.tsv",
    "treatments.tsv",
    "truth.tsv",
    "motifs.meme",
)


def simulation_figures(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The main figures of `simulation.json` at `path`. Raises: FormatError when they are not there."""
    try:
        if SIMULATIONS[content["format"]] == "simulated-families":
            families = content["families"]
            return {
                "format_version": content["format_version"],
                "seed": content["seed"],
                "families": some([family["id"] for family in families]),
                "groups": len({family["group"] for family in families}),
            }
        return {
            "format_version": content["format_version"],
            "settings": content["settings"],
            "motifs": some(list(content["motifs"])),
            "treatments": some(list(content["treatments"])),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: is incomplete ({error!r})") from error


def check_simulation_files(folder: Path, content: dict[str, Any]) -> None:
    """Raises: FormatError when a file of the simulation in `folder` is missing."""
    if SIMULATIONS[content["format"]] == "simulated-families":
        names = ["PAIRS.tsv"]
        for family in content["families"]:
            name = family["id"]
            names += [f"msa/{name}.a3m", f"structure/{name}.pdb", f"contacts/{name}.tsv"]
    else:
        names = list(_PROMOTER_FILES)
    missing = [name for name in names if not any((folder / f"{name}{end}").is_file() for end in ("", ".gz"))]
    if missing:
        more = f" and {counted(len(missing) - 1, 'more file')}" if len(missing) > 1 else ""
        raise FormatError(f"{folder}: {missing[0]}{more} of the simulation missing; simulate it again")
