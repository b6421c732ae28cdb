"""The kinds of files of Phyloformer: models, and folders of distances and trees."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.models.model_kind import model_kind
from bioattn.models.phyloformer.family import FAMILY
from bioattn.models.phyloformer.phylogeny import (
    DISTANCES,
    MINIMUM_EVOLUTION,
    NEIGHBOUR_JOINING,
    PHYLOGENY,
)
from bioattn.store.kinds import FileKind
from bioattn.store.several_results import several_results


def _describe(path: Path) -> dict[str, Any]:
    from bioattn.models.phyloformer.parameters import read_parameters

    model = read_parameters(path)
    return {
        "form": "Phyloformer's parameters",
        "blocks": model.config.num_blocks,
        "heads": model.config.num_heads,
        "channels": model.config.channels,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def file_kinds() -> Sequence[FileKind]:
    return (
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
            DISTANCES,
            NEIGHBOUR_JOINING,
            MINIMUM_EVOLUTION,
            order=1,
        ),
    )
