"""What `bioattn inspect` says of simulations, by their `simulation.json`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json
from bioattn.text import counted, some

FAMILIES_FORMAT = "bioattn-simulated-families"
PROMOTERS_FORMAT = "bioattn-simulated-promoters"
INDEX = "simulation.json"
_PROMOTER_FILES = (
    "genome.fa",
    "annotation.gff3",
    "responses.tsv",
    "treatments.tsv",
    "truth.tsv",
    "motifs.meme",
)


def describe_simulation(path: Path) -> dict[str, Any]:
    """The main figures of the folder of a simulation, or of its `simulation.json`.

    Raises: FormatError when the JSON lacks them, or a file that it speaks of is missing in the folder.
    """
    index = path / INDEX if path.is_dir() else path
    content = read_json(index)
    try:
        of_families = content["format"] == FAMILIES_FORMAT
        figures = _of_families(content) if of_families else _of_promoters(content)
        if path.is_dir():
            _require_files(path, _family_files(content) if of_families else _PROMOTER_FILES)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{index}: is incomplete ({error!r})") from error
    return figures


def _of_families(content: Mapping[str, Any]) -> dict[str, Any]:
    families = content["families"]
    return {
        "format_version": content["format_version"],
        "seed": content["seed"],
        "families": some([family["id"] for family in families]),
        "groups": len({family["group"] for family in families}),
    }


def _of_promoters(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format_version": content["format_version"],
        "settings": content["settings"],
        "motifs": some(list(content["motifs"])),
        "treatments": some(list(content["treatments"])),
    }


def _family_files(content: Mapping[str, Any]) -> tuple[str, ...]:
    files = [
        name
        for family in content["families"]
        for name in (
            f"msa/{family['id']}.a3m",
            f"structure/{family['id']}.pdb",
            f"contacts/{family['id']}.tsv",
        )
    ]
    return ("PAIRS.tsv", *files)


def _require_files(folder: Path, names: tuple[str, ...]) -> None:
    """Raises: FormatError when a file of the simulation, plain or compressed, is missing."""
    missing = [name for name in names if not any((folder / f"{name}{end}").is_file() for end in ("", ".gz"))]
    if missing:
        more = f" and {counted(len(missing) - 1, 'more file')}" if len(missing) > 1 else ""
        raise FormatError(f"{folder}: {missing[0]}{more} of the simulation missing; simulate it again")
