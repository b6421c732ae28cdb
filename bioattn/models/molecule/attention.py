"""`export attention` of molecule models: weights over atoms and slots, and what each atom contributes.

Shape suffixes: B molecules, T tasks, R radii, A atoms.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bioattn.attention.capture import capture
from bioattn.attention.site import Axis
from bioattn.inference.attention_file import attention_report, fitting_samples, write_attention_file
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.run import Work
from bioattn.io.files import sha256_of
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.molecule.folder import LoadedMoleculeModel
from bioattn.models.molecule.model import molecule_batch
from bioattn.models.molecule_layers import ATOMS
from bioattn.models.running import Running, RunReport
from bioattn.molecules.graphs import Molecules
from bioattn.store.schema import (
    ATOM_CONTRIBUTIONS,
    TEXT,
    Array,
    AttentionOptions,
    Block,
    Column,
    FileLayout,
    GroupLayout,
    Samples,
    site_layout,
)

MOLECULES = "molecules"
"""What files over molecules say of their inputs."""


@dataclass(frozen=True, slots=True)
class MoleculeSource:
    """Molecules of a file: a `bioattn.inference.runner.Source`, and its batches."""

    path: Path
    sha256: str
    molecules: Molecules
    rows: range

    @property
    def num_samples(self) -> int:
        return len(self.rows)

    @property
    def samples(self) -> Samples:
        """Names, numbers of atoms, and SMILES, in whose order the atoms stand."""
        ids, smiles = (
            [each[row] for row in self.rows] for each in (self.molecules.ids, self.molecules.smiles)
        )
        atoms = self.molecules.sizes[self.rows.start : self.rows.stop].astype(np.int32)
        return Samples({"id": ids, ATOMS: atoms, "smiles": smiles})

    def part(self, rows: slice) -> "MoleculeSource":
        return replace(self, rows=self.rows[rows])

    def batches(self, size: int) -> Iterator["MoleculeSource"]:
        for first in range(0, self.num_samples, size):
            yield self.part(slice(first, first + size))


def attention_work(
    loaded: LoadedMoleculeModel,
    molecules: Molecules,
    path: Path,
    sha256: str,
    options: AttentionOptions,
    batch_size: int | None,
) -> tuple[Work, FileLayout]:
    """How the maps of molecules are computed, and what each atom at each radius contributes to each task.

    path, sha256: of the input. Raises: BioattnError for sites or heads that the model lacks.
    """
    names = choose_sites(loaded.sites, options.sites)
    source = MoleculeSource(path, sha256, molecules, range(len(molecules.ids)))
    lengths = [{ATOMS: int(size)} for size in molecules.sizes]
    contributions = GroupLayout(
        path=ATOM_CONTRIBUTIONS,
        axes=(
            Axis("task", coordinates=loaded.config.tasks),
            Axis("radius", size=loaded.config.radius + 1),
            Axis("place", "atom", size=int(molecules.sizes.max()), lengths=ATOMS),
        ),
        arrays=(
            Array(
                "values",
                "float32",
                ("task", "radius", "place"),
                "what the prediction loses when the atom writes nothing (standard deviations, or log-odds)",
            ),
        ),
    )
    layouts = (*(site_layout(loaded.sites[name], options, lengths=lengths) for name in names), contributions)
    if batch_size is None:
        longest = {ATOMS: int(molecules.sizes.max())}
        batch_size = fitting_samples(sum(layout.bytes_of_sample(longest) for layout in layouts))
    receiver = BatchReceiver(options)

    def compute(batch: MoleculeSource) -> Block:
        tensors = molecule_batch(molecules, batch.rows, loaded.device)
        with torch.inference_mode(), capture(names, receiver, value_weighted=options.value_weighted):
            lost_BTRA = loaded.model.contributions(tensors)
        return Block(
            batch.samples, {**receiver.take(), ATOM_CONTRIBUTIONS: {"values": lost_BTRA.cpu().numpy()}}
        )

    work = Work(
        source=source,
        noun="molecule",
        batch_size=batch_size,
        compute=compute,
        model=loaded.path,
        lengths=lengths,
    )
    layout = FileLayout(
        inputs=MOLECULES,
        model_sha256=loaded.sha256,
        attributes={"input_sha256": source.sha256},
        columns=(
            Column(ATOMS, "int32", "heavy atoms, in the order of the SMILES"),
            Column("smiles", TEXT, "the molecule as the model reads it"),
        ),
        groups=layouts,
    )
    return work, layout


def write_attention(
    settings: ExportAttention, running: Running, loaded: LoadedMoleculeModel, molecules: Molecules
) -> RunReport:
    """Write the attention that `settings` ask for. Raises: as `attention_work` and `run_work`."""
    path, options = settings.sequences, settings.options()
    work, layout = attention_work(loaded, molecules, path, sha256_of(path), options, settings.batch_size)
    summary = write_attention_file(
        settings,
        running,
        loaded,
        work,
        layout,
        sites=choose_sites(loaded.sites, options.sites),
        inputs={"molecules": work.source.sha256},
        smaller="choose fewer --sites or --heads, --reduce, or fewer molecules",
    )
    return attention_report(settings, summary, "molecule")
