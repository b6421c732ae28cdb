"""What `bioattn run phyloformer` writes of an alignment: a folder of distances and trees; no torch here."""

from collections.abc import Iterable, Mapping
from typing import Any

from bioattn.store.recorded_folder import RecordedFolder

DISTANCES, NEIGHBOUR_JOINING, MINIMUM_EVOLUTION = "distances.tsv", "nj.nwk", "bme.nwk"


def _files(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    files: dict[str, str] = record["files"]
    return files.items()


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: record[name] for name in ("id", "sequences", "sites", "gap_share", "mean_distance", "model")
    }


PHYLOGENY = RecordedFolder(
    what="distances and trees",
    format="bioattn-phylogeny",
    format_version="1.0",
    record="phylogeny.json",
    own_names=r"distances\.tsv|(nj|bme)\.nwk",
    files_of=_files,
    figures=_figures,
    advice="run it again with --force",
)
