"""One alignment at a time: its distances, its trees, its folder."""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.alignment import GAP, Alignment, looks_like_nucleotides, require_proteins
from bioattn.inference.alignment_inputs import read_with_digest
from bioattn.inference.attention_receiver import SampleReceiver, choose_sites
from bioattn.inference.finite import require_finite
from bioattn.inference.folder_paths import InputFile
from bioattn.inference.folders import AttentionWriter
from bioattn.io.files import sha256_of, write_json
from bioattn.io.folders import atomic_folder
from bioattn.models.phyloformer.config import LETTERS, PhylogenyAlphabet
from bioattn.models.phyloformer.folder import LoadedPhyloformer
from bioattn.models.phyloformer.model import PAIR, PAIRS, SITES
from bioattn.models.phyloformer.phylogeny import DISTANCES, MINIMUM_EVOLUTION, NEIGHBOUR_JOINING, PHYLOGENY
from bioattn.models.phyloformer.trees import balanced_minimum_evolution, neighbour_joining
from bioattn.store.contents import Collector
from bioattn.store.schema import (
    TEXT,
    AttentionOptions,
    Column,
    FileLayout,
    ListColumn,
    Samples,
    site_layout,
)
from bioattn.system.memory import free_memory
from bioattn.system.signals import StopRequest
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")

INPUTS = "sequence alignments"
"""What files of attention say of their inputs."""
MANY_GAPS = 0.05
"""Share of the cells above which distances of models that know no gaps are far too long."""
COPIES = 1.3
"""Memory of a pass, in units of all pairs × sites × channels."""


@dataclass(frozen=True, eq=False, slots=True)
class Prepared:
    """An alignment that was read and found fit."""

    alignment: Alignment
    sha256: str

    @property
    def lengths(self) -> dict[str, int]:
        rows = self.alignment.num_rows
        return {SITES: self.alignment.num_columns, PAIRS: rows * (rows - 1) // 2}

    def samples(self, name: str) -> Samples:
        names = self.alignment.names
        pairs = [f"{first}|{second}" for i, first in enumerate(names) for second in names[i + 1 :]]
        lengths = {column: np.array([number], dtype=np.int32) for column, number in self.lengths.items()}
        return Samples({"id": [name], **lengths, "input_sha256": [self.sha256]}, {"sequence_pairs": [pairs]})


class PhylogenyRunner:
    """A model: a `bioattn.inference.folders.FolderRunner`."""

    noun = "alignment"
    record_file = PHYLOGENY.record

    def __init__(self, loaded: LoadedPhyloformer) -> None:
        self.loaded = loaded

    @property
    def model_path(self) -> Path:
        return self.loaded.path

    @property
    def sites(self) -> Mapping[str, AttentionSite]:
        return self.loaded.sites

    def settings_json(self) -> dict[str, Any]:
        return {"model_sha256": self.loaded.sha256, "device": self.loaded.device.type}

    def check(self, attention: AttentionOptions | None) -> None:
        if attention is not None:
            self.layout(attention)

    def layout(self, options: AttentionOptions) -> FileLayout:
        """The layout of the attention file. Raises: BioattnError for sites or heads that the model lacks."""
        if options.value_weighted or options.phases > 1:
            raise SettingsError("value_weighted and phases are not for alignments; leave them out")
        sites = self.sites
        return FileLayout(
            inputs=INPUTS,
            model_sha256=self.loaded.sha256,
            columns=(
                Column(SITES, "int32", "columns of the alignment"),
                Column(PAIRS, "int32", "pairs of sequences"),
                Column("input_sha256", TEXT, "SHA-256 of the alignment file"),
            ),
            lists=(ListColumn("sequence_pairs", TEXT, PAIR, PAIRS, long_name="names of both sequences"),),
            groups=tuple(
                site_layout(sites[name], options, per_sample=True)
                for name in choose_sites(sites, options.sites)
            ),
        )

    def run(
        self, source: InputFile, folder: Path, request: StopRequest, attention: AttentionWriter | None
    ) -> list[str]:
        """Read an alignment and estimate its distances and trees; returns the names of the files."""
        prepared = self.prepare(source)
        names = prepared.alignment.names
        gaps = float((prepared.alignment.residues == GAP).mean())
        LOGGER.info(
            f"{source.name}: {counted(len(names), 'sequence')}, "
            f"{counted(prepared.alignment.num_columns, 'site')}, {gaps:.1%} gaps"
        )
        if gaps > MANY_GAPS:
            LOGGER.warning(
                f"{source.path}: {gaps:.0%} of the cells are gaps; models that were trained without gaps "
                "(pf.ckpt) give branches that are far too long, take one that knows them (pf_indel.ckpt, or one "
                "trained on `simulate trees --deletions`)"
            )
        files = [DISTANCES, NEIGHBOUR_JOINING, MINIMUM_EVOLUTION]
        with atomic_folder(folder, [*files, PHYLOGENY.record]) as partial:
            distances_NN = self.distances(prepared, source, attention)
            request.check()
            _write_matrix(partial / DISTANCES, names, distances_NN)
            (partial / NEIGHBOUR_JOINING).write_text(neighbour_joining(names, distances_NN))
            (partial / MINIMUM_EVOLUTION).write_text(balanced_minimum_evolution(names, distances_NN))
            record = {
                **PHYLOGENY.header,
                "id": source.name,
                "input": {"file": source.path.name, "sha256": prepared.sha256},
                "model": {"file": self.loaded.path.name, "sha256": self.loaded.sha256},
                "sequences": len(names),
                "sites": prepared.alignment.num_columns,
                "gap_share": round(gaps, 6),
                "mean_distance": float(f"{distances_NN[np.triu_indices(len(names), 1)].mean():.7g}"),
                "settings": self.settings_json(),
                "files": {name: sha256_of(partial / name) for name in files},
            }
            write_json(partial / PHYLOGENY.record, record)
        return [*files, PHYLOGENY.record]

    def distances(
        self,
        prepared: Prepared,
        source: InputFile,
        attention: AttentionWriter | Collector | None = None,
    ) -> NDArray[np.float64]:
        """(N, N), in expected substitutions per site. Raises: BioattnError when it takes too much memory.

        attention: what it is also written to, or kept in.
        """
        self._check_memory(source, prepared)
        codes_NL = alignment_codes(prepared.alignment, self.loaded.model.config.alphabet)
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if isinstance(attention, Collector):
                groups = attention.layout.groups
                sites = [self.sites[group.path.removeprefix("sites/")] for group in groups]
                held = stack.enter_context(attention.sample(prepared.samples(source.name)))
                receiver = SampleReceiver(held, sites, groups)
                stack.enter_context(capture([site.name for site in sites], receiver))
            elif attention is not None:
                sample = prepared.samples(source.name)
                receiver = stack.enter_context(attention.sample(sample))
                stack.enter_context(capture(attention.site_names, receiver))
            distances_P = self.loaded.model(torch.from_numpy(codes_NL).to(self.loaded.device)).double().cpu()
        require_finite(distances_P, "distances")
        rows = prepared.alignment.num_rows
        distances_NN = np.zeros((rows, rows))
        distances_NN[np.triu_indices(rows, 1)] = distances_P.numpy()
        return distances_NN + distances_NN.T

    def prepare(self, source: InputFile) -> Prepared:
        """Raises: BioattnError naming what is wrong with an alignment."""
        return self.prepared(source, *read_with_digest(source.path))

    def prepared(self, source: InputFile, alignment: Alignment, digest: str) -> Prepared:
        """An alignment that was read, found fit. Raises: as `prepare`."""
        alphabet = self.loaded.model.config.alphabet
        require_alphabet(alignment, alphabet, source.path)
        if alignment.num_rows < 2:
            raise FormatError(f"{source.path}: holds one sequence; distances need at least 2")
        known_NL = alignment_codes(alignment, alphabet) < len(LETTERS[alphabet]) - 2
        seen: dict[str, int] = {}
        for row, name in enumerate(alignment.names, start=1):
            if name in seen:
                raise FormatError(
                    f"{source.path}: rows {seen[name]} and {row} are both called {name!r}; leaves of a tree need "
                    "names of their own"
                )
            if not known_NL[row - 1].any():
                raise FormatError(
                    f"{source.path}: row {row}, {name}, holds gaps and unknown letters only, so it has no "
                    "distances; leave it out"
                )
            seen[name] = row
        return Prepared(alignment, digest)

    def _check_memory(self, source: InputFile, prepared: Prepared) -> None:
        """Raises: BioattnError with the estimate where there is too little."""
        free = free_memory() if self.loaded.device.type == "cpu" else None
        lengths = prepared.lengths
        needed = int(COPIES * 4 * lengths[PAIRS] * lengths[SITES] * self.loaded.model.config.channels)
        if free is not None and needed > free:
            raise BioattnError(
                f"{source.path}: {counted(lengths[PAIRS], 'pair')} of sequences × "
                f"{counted(lengths[SITES], 'site')} need about {human_bytes(needed)} of memory, "
                f"{human_bytes(free)} are free; give it fewer sequences or sites, or take a larger machine"
            )


def alignment_codes(alignment: Alignment, alphabet: PhylogenyAlphabet) -> NDArray[np.int64]:
    """(N, L) places in the alphabet's `LETTERS`."""
    letters = LETTERS[alphabet]
    codes = np.full(256, len(letters) - 2)
    codes[np.frombuffer(letters.encode(), dtype=np.uint8)] = np.arange(len(letters))
    if alphabet is PhylogenyAlphabet.DNA:
        codes[ord("U")] = codes[ord("T")]
    return codes[alignment.residues]


def require_alphabet(alignment: Alignment, alphabet: PhylogenyAlphabet, path: Path) -> None:
    """Raises: FormatError when an alignment is of the other kind."""
    if alphabet is PhylogenyAlphabet.PROTEIN:
        require_proteins(alignment, str(path))
    elif not looks_like_nucleotides(alignment):
        raise FormatError(f"{path}: an alignment of proteins; the model reads DNA")


def _write_matrix(path: Path, names: list[str], distances_NN: NDArray[np.float64]) -> None:
    lines = ["\t".join(("sequence", *names))]
    for name, row in zip(names, distances_NN, strict=True):
        lines.append("\t".join((name, *(f"{value:.7g}" for value in row))))
    path.write_text("\n".join(lines) + "\n")
