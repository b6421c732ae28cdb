"""The kinds of files of Phyloformer: models, and what `run phyloformer` writes of an alignment; no torch here."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.io.files import read_lines
from bioattn.models.file_kinds import model_kind
from bioattn.models.phyloformer.family import FAMILY
from bioattn.store.inspection import several_results
from bioattn.store.kinds import FileKind, starts_with
from bioattn.store.recorded_folder import RecordedFolder

DISTANCES, NEIGHBOUR_JOINING, MINIMUM_EVOLUTION = "distances.tsv", "nj.nwk", "bme.nwk"

FIGURES = ("id", "sequences", "sites", "gap_share", "mean_distance", "model")
PHYLOGENY = RecordedFolder(
    what="distances and trees",
    format="bioattn-phylogeny",
    format_version="1.0",
    record="phylogeny.json",
    own_names=(DISTANCES, NEIGHBOUR_JOINING, MINIMUM_EVOLUTION),
    figures=lambda record: {name: record[name] for name in FIGURES},
)


def _describe(path: Path) -> dict[str, Any]:
    from bioattn.models.phyloformer.model import read_parameters

    model = read_parameters(path)
    return {
        "form": "Phyloformer's parameters",
        "blocks": model.config.num_blocks,
        "heads": model.config.num_heads,
        "channels": model.config.channels,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _newick(path: Path) -> str:
    return "\n".join(line for _, line in read_lines(path)) + "\n"


FILE_KINDS: Sequence[FileKind] = (
    FileKind(
        "tree",
        "tree in Newick",
        starts_with(b"("),
        lambda path: {"leaves": re.sub(r"'[^']*'|\[[^]]*\]", "", _newick(path)).count(",") + 1},
        _newick,
    ),
    FileKind(
        name="phyloformer-parameters",
        title="parameters of Phyloformer",
        matches=lambda candidate: candidate.magic == b"PK\x03\x04" and FAMILY.recognises(candidate.path),
        describe=_describe,
        is_model=True,
        order=-3,
    ),
    model_kind(FAMILY, title="Phyloformer model folder"),
    PHYLOGENY.kind("phylogeny", "distances and trees of an alignment"),
    several_results(
        "phylogenies",
        "folder of distances and trees",
        PHYLOGENY.record,
        order=1,
    ),
)
