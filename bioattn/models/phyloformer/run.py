"""A Phyloformer model that is ready to run, and its commands: distances and trees of one alignment at a time."""

import logging
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.alignment import GAP, Alignment, looks_like_nucleotides, require_proteins
from bioattn.formats.alignment_file import read_with_digest
from bioattn.inference.alignment_inputs import (
    Given,
    InputFile,
    alignments_for,
    alignments_in,
    find_alignments,
)
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.folders import AttentionWriter, run_folders
from bioattn.inference.inputs import python_call
from bioattn.inference.passes import require_finite
from bioattn.io.files import sha256_of, text_output
from bioattn.io.folders import atomic_folder
from bioattn.models.attention_settings import (
    ONLY_PROMOTERS,
    AttentionKeywords,
    ExportAttention,
    attention_options,
)
from bioattn.models.model_folder import LoadedModel
from bioattn.models.phyloformer.family import LETTERS, PhyloformerConfig, PhyloformerRun, PhylogenyAlphabet
from bioattn.models.phyloformer.file_kinds import DISTANCES, MINIMUM_EVOLUTION, NEIGHBOUR_JOINING, PHYLOGENY
from bioattn.models.phyloformer.model import PAIR, PAIRS, SITES, Phyloformer, read_parameters
from bioattn.models.phyloformer.trees import balanced_minimum_evolution, neighbour_joining, require_scikit_bio
from bioattn.models.running import Running, RunReport, tsv
from bioattn.store.contents import Held
from bioattn.store.reader import Attention
from bioattn.store.schema import TEXT, AttentionOptions, Column, FileLayout, ListColumn, Samples, site_layout
from bioattn.store.writer import result_file
from bioattn.system.memory import free_memory
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes

if TYPE_CHECKING:
    import pandas as pd

LOGGER = logging.getLogger("bioattn")
MANY_GAPS = 0.05
"""Share of the cells above which distances of models that know no gaps are far too long."""
COPIES = 1.7
"""Memory of a pass, in units of all pairs × sites × channels."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedPhyloformer(LoadedModel[Phyloformer, PhyloformerConfig]):
    """A Phyloformer: evolutionary distances of the sequences of an alignment.

    `inputs` of its methods are the path of an alignment, of a folder of them or of a file that lists them; an
    `Alignment`; or its rows by name, or a list of rows.
    """

    family: ClassVar[str] = "phyloformer"

    path: Path

    def predict(self, inputs: Any) -> "pd.DataFrame":
        """Estimate distances in expected substitutions per site, sequences × sequences.

        Of several alignments the matrices stand below each other, their names in the index.

        Raises: BioattnError for alignments that cannot be read.
        """
        import pandas as pd

        with python_call():
            given, several = alignments_in(inputs)
            tables = {
                one.source.name: pd.DataFrame(
                    self.distances(one),
                    index=pd.Index(one.alignment.names, name="sequence"),
                    columns=one.alignment.names,
                )
                for one in given
            }
        return pd.concat(tables) if several else next(iter(tables.values()))

    def attention(self, inputs: Any, **choices: Unpack[AttentionKeywords]) -> Attention:
        """Return the attention weights over alignments, in memory.

        choices: what is kept, as `AttentionKeywords` has them: sites, heads, dtype, reduce, top_k.

        Raises: as `predict`; BioattnError for sites or heads that the model lacks.
        """
        options = attention_options(**choices)
        with python_call():
            layout = PhylogenyRunner(self).layout(options)
            kept = Held(layout)
            for one in alignments_in(inputs)[0]:
                self.distances(one, AttentionWriter(kept, layout, self.sites))
        return Attention(kept)

    def distances(self, given: Given, attention: AttentionWriter | None = None) -> NDArray[np.float64]:
        """Estimate distances of an alignment, (N, N), in expected substitutions per site.

        attention: what it is also written to. Raises: FormatError for an alignment that has no distances;
        BioattnError when it takes too much memory.
        """
        _check(given, self.config.alphabet)
        gaps = float((given.alignment.residues == GAP).mean())
        if gaps > MANY_GAPS:
            LOGGER.warning(
                f"{given.source.path}: {gaps:.0%} of the cells are gaps: branches are far too long (pf.ckpt) "
                "unless the model was trained with gaps (pf_indel.ckpt, or on `simulate trees --deletions`)"
            )
        samples = _samples(given)
        lengths, free = samples.lengths(0), free_memory() if self.device.type == "cpu" else None
        needed = int(COPIES * 4 * lengths[PAIRS] * lengths[SITES] * self.config.channels)
        if free is not None and needed > free:
            raise BioattnError(
                f"{given.source.path}: {counted(lengths[PAIRS], 'pair')} of sequences × "
                f"{counted(lengths[SITES], 'site')} need about {human_bytes(needed)} of memory, "
                f"{human_bytes(free)} are free; give it fewer sequences or sites, or take a larger machine"
            )
        codes_NL = torch.from_numpy(alignment_codes(given.alignment, self.config.alphabet))
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if attention is not None:
                receiver = stack.enter_context(attention.sample(samples))
                stack.enter_context(capture(attention.site_names, receiver))
            distances_P = self.model(codes_NL.to(self.device)).double().cpu()
        require_finite(distances_P, "distances")
        rows = given.alignment.num_rows
        distances_NN = np.zeros((rows, rows))
        distances_NN[np.triu_indices(rows, 1)] = distances_P.numpy()
        return distances_NN + distances_NN.T


def load_phyloformer(path: Path, device: torch.device) -> LoadedPhyloformer:
    """Load a model folder, or published parameters.

    Raises: as `LoadedModel.of_folder` or `read_parameters`.
    """
    if path.is_file():
        model = read_parameters(path).to(device)
        return LoadedPhyloformer(model=model, device=device, sha256=sha256_of(path), path=path)
    return LoadedPhyloformer.of_folder(path, device, PhyloformerConfig, Phyloformer)


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


def _check(given: Given, alphabet: PhylogenyAlphabet) -> None:
    """Raises: FormatError naming what is wrong with an alignment."""
    path, alignment = given.source.path, given.alignment
    require_alphabet(alignment, alphabet, path)
    if alignment.num_rows < 2:
        raise FormatError(f"{path}: holds one sequence; distances need at least 2")
    known_NL = alignment_codes(alignment, alphabet) < len(LETTERS[alphabet]) - 2
    seen: dict[str, int] = {}
    for row, name in enumerate(alignment.names, start=1):
        if name in seen:
            raise FormatError(
                f"{path}: rows {seen[name]} and {row} are both called {name!r}; give the leaves of a "
                "tree names that differ before the first blank"
            )
        if not known_NL[row - 1].any():
            raise FormatError(
                f"{path}: row {row}, {name}, holds gaps and unknown letters only, so it has no distances; leave "
                "it out"
            )
        seen[name] = row


def _samples(given: Given) -> Samples:
    """The line of the sample table of an alignment."""
    names = given.alignment.names
    pairs = [f"{first}|{second}" for i, first in enumerate(names) for second in names[i + 1 :]]
    sizes = {SITES: given.alignment.num_columns, PAIRS: len(pairs)}
    lengths = {column: np.array([size], dtype=np.int32) for column, size in sizes.items()}
    return Samples(
        {"id": [given.source.name], **lengths, "input_sha256": [given.sha256]}, {"sequence_pairs": [pairs]}
    )


class PhylogenyRunner:
    """A model: a `bioattn.inference.folders.FolderRunner`."""

    noun = "alignment"
    record_file = PHYLOGENY.record

    def __init__(self, loaded: LoadedPhyloformer) -> None:
        self.loaded, self.model_path, self.sites = loaded, loaded.path, loaded.sites

    def settings_json(self) -> dict[str, Any]:
        return {"model_sha256": self.loaded.sha256, "device": self.loaded.device.type}

    def layout(self, options: AttentionOptions) -> FileLayout:
        """The layout of the attention file. Raises: BioattnError for sites or heads that the model lacks."""
        if options.value_weighted or options.phases > 1:
            raise SettingsError("value_weighted and phases are not for alignments; leave them out")
        sites = self.sites
        return FileLayout(
            inputs="sequence alignments",
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
        given = Given(source, *read_with_digest(source.path))
        names, sites = given.alignment.names, given.alignment.num_columns
        gaps = float((given.alignment.residues == GAP).mean())
        LOGGER.info(
            f"{source.name}: {counted(len(names), 'sequence')}, {counted(sites, 'site')}, {gaps:.1%} gaps"
        )
        files = [DISTANCES, NEIGHBOUR_JOINING, MINIMUM_EVOLUTION]
        with atomic_folder(folder, [*files, PHYLOGENY.record]) as partial:
            distances_NN = self.loaded.distances(given, attention)
            request.check()
            with text_output(partial / DISTANCES) as table:
                table.write(tsv(["sequence", *names]))
                table.writelines(
                    tsv([name, *row]) for name, row in zip(names, distances_NN.tolist(), strict=True)
                )
            (partial / NEIGHBOUR_JOINING).write_text(neighbour_joining(names, distances_NN))
            (partial / MINIMUM_EVOLUTION).write_text(balanced_minimum_evolution(names, distances_NN))
            record = {
                "id": source.name,
                "input": {"file": source.path.name, "sha256": given.sha256},
                "model": {"file": self.loaded.path.name, "sha256": self.loaded.sha256},
                "sequences": len(names),
                "sites": sites,
                "gap_share": round(gaps, 6),
                "mean_distance": float(f"{distances_NN[np.triu_indices(len(names), 1)].mean():.7g}"),
                "settings": self.settings_json(),
            }
            PHYLOGENY.write(partial, record)
        return [*files, PHYLOGENY.record]


def run(settings: PhyloformerRun, running: Running) -> RunReport:
    """Run all alignments. Raises: as `run_folders`, and for the settings."""
    if settings.sites and settings.attention is None:
        raise SettingsError("--sites speaks of attention; give --attention FILE too")
    require_scikit_bio()
    sources, several = alignments_for(settings, settings.model, PHYLOGENY.record)
    loaded = load_phyloformer(settings.model, running.device(settings.device, settings.threads))
    return run_folders(
        PhylogenyRunner(loaded),
        settings,
        sources,
        several=several,
        options=None if settings.attention is None else AttentionOptions(sites=settings.sites or ("*",)),
        figures={"model": {"file": loaded.path.name, "sha256": loaded.sha256}, "device": str(loaded.device)},
    )


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    """Write the attention over alignments alone. Raises: as `result_file`."""
    settings.refuse(
        ("genes", "samples", *ONLY_PROMOTERS, "window", "targets", "batch_size", "value_weighted", "shard"),
        "Phyloformer models",
    )
    sources, _ = find_alignments(settings.sequences)
    runner = PhylogenyRunner(
        load_phyloformer(settings.model, running.device(settings.device, settings.threads))
    )
    options = settings.options()
    layout = runner.layout(options)
    sites = choose_sites(runner.sites, options.sites)
    of_file = {**asdict(options), "sites": sites, **runner.settings_json()}
    with (
        stop_on_signals() as stop,
        result_file(
            settings.output,
            layout,
            len(sources),
            settings=of_file,
            resume=settings.resume,
            force=settings.force,
        ) as writer,
    ):
        attention = AttentionWriter(writer, layout, runner.sites, settings.output)
        for source in [source for source in sources if source.name not in writer.ids]:
            stop.check()
            runner.loaded.distances(Given(source, *read_with_digest(source.path)), attention)
    return RunReport(
        f"wrote {settings.output}: attention of {counted(len(sources), 'alignment')}",
        outputs=[settings.output],
        alignments=len(sources),
    )
