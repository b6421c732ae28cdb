"""The Phyloformer family: the settings of its command, and the way to its models."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn.models.phyloformer import running as runs
from bioattn.models.phyloformer.running import PhyloformerRun
from bioattn.models.settings import Settings

if TYPE_CHECKING:
    import torch

    from bioattn.models.phyloformer.folder import LoadedPhyloformer
    from bioattn.store.kinds import FileKind


class PhyloformerFamily:
    """Models of evolutionary distances."""

    name = "phyloformer"
    title = "alignments: evolutionary distances and trees of proteins"
    settings: Mapping[str, type[Settings]] = {"run": PhyloformerRun}
    nouns: Mapping[str, str] = {}
    table = "distances.tsv"
    files: Sequence[str] = ()

    def load(self, path: Path, device: "torch.device") -> "LoadedPhyloformer":
        """Published parameters."""
        from bioattn.models.phyloformer.folder import load_phyloformer

        return load_phyloformer(path, device)

    load_file = load

    def recognises(self, path: Path) -> bool:
        """Whether a file is a checkpoint whose names are Phyloformer's."""
        try:
            with zipfile.ZipFile(path) as archive:
                names = next(name for name in archive.namelist() if name.endswith("data.pkl"))
                return b"pwFNN.0.weight" in archive.read(names)
        except (OSError, zipfile.BadZipFile, StopIteration, RuntimeError):
            return False

    def file_kinds(self) -> "Sequence[FileKind]":
        """The kinds of files that these models own."""
        from bioattn.models.phyloformer.file_kinds import file_kinds

        return file_kinds()

    run = staticmethod(runs.run)


FAMILY = PhyloformerFamily()
