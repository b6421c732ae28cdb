"""What `bioattn inspect` says of simulations, by their `simulation.json`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

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
        figures, files = _KINDS[content["format"]](content)
        figures = {"format_version": content["format_version"], **figures}
        if path.is_dir():
            _require_files(path, files)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{index}: is incomplete ({error!r})") from error
    return figures


_Described: TypeAlias = tuple[dict[str, Any], tuple[str, ...]]
"""Main figures, and the files of the folder."""


def _of_families(content: Mapping[str, Any]) -> _Described:
    names = [family["id"] for family in content["families"]]
    figures = {
        "seed": content["seed"],
        "families": some(names),
        "groups": len({family["group"] for family in content["families"]}),
    }
    places = ("msa/{}.a3m", "structure/{}.pdb", "contacts/{}.tsv")
    return figures, ("PAIRS.tsv", *(place.format(name) for name in names for place in places))


def _of_promoters(content: Mapping[str, Any]) -> _Described:
    shown = {name: some(list(content[name])) for name in ("motifs", "treatments")}
    return {"settings": content["settings"], **shown}, _PROMOTER_FILES


def _said(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if not name.startswith("format")}


_KINDS: dict[str, Callable[[Mapping[str, Any]], _Described]] = {
    FAMILIES_FORMAT: _of_families,
    PROMOTERS_FORMAT: _of_promoters,
    MOLECULES_FORMAT: lambda content: (_said(content), ("molecules.tsv", "truth.tsv")),
    PAIRS_FORMAT: lambda content: (_said(content), ("source.fa", "target.fa", "alignment.tsv")),
    SEQUENCES_FORMAT: lambda content: ({"settings": content["settings"]}, ("sequences.fa", "truth.tsv")),
    TREES_FORMAT: lambda content: (
        {name: content[name] for name in ("seed", "count", "alphabet")},
        ("PAIRS.tsv",),
    ),
}


def _require_files(folder: Path, names: tuple[str, ...]) -> None:
    """Raises: FormatError when a file of the simulation, plain or compressed, is missing."""
    missing = [name for name in names if not any((folder / f"{name}{end}").is_file() for end in ("", ".gz"))]
    if missing:
        more = f" and {counted(len(missing) - 1, 'more file')}" if len(missing) > 1 else ""
        raise FormatError(f"{folder}: {missing[0]}{more} of the simulation missing; simulate it again")
