"""A translation model that is ready to run, and its commands: outputs, scores of given ones, attention."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.choices import chosen
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.fasta import format_record
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.inputs import Inputs, Source, python_call
from bioattn.inference.run import Work, attention_work, write_attention_file
from bioattn.io.files import sha256_of
from bioattn.models.attention_settings import (
    ONLY_PROMOTERS,
    AttentionKeywords,
    ExportAttention,
    attention_options,
)
from bioattn.models.family import method
from bioattn.models.model_folder import CheckedModel
from bioattn.models.running import Running, RunReport, stream_output, tsv
from bioattn.models.translation.batches import batch_of, read_sources, with_ends, with_targets
from bioattn.models.translation.family import OutputConstraint, Search, TranslationModelConfig, TranslationRun
from bioattn.models.translation.layers import SLOTS, SOURCE_TOKENS, TARGET_TOKENS
from bioattn.models.translation.model import Ensemble, Translator
from bioattn.models.translation.search import (
    GIVEN_COLUMNS,
    OUTPUT_COLUMNS,
    Constraint,
    Motifs,
    given_rows,
    output_rows,
    read_motifs,
    translate,
)
from bioattn.sequences.choices import PairAlphabet
from bioattn.sequences.pairs import Pair, Tokens
from bioattn.sequences.preparation import check_genetic_code
from bioattn.sequences.vocabulary import EOS, UNKNOWN
from bioattn.store.reader import Attention
from bioattn.store.schema import TEXT, AttentionOptions, Column, FileLayout, ListColumn, Samples
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted

if TYPE_CHECKING:
    import pandas as pd

LOGGER = logging.getLogger("bioattn")
FASTA_NAMES = (".fa", ".fasta", ".fna", ".faa", ".ffn")
TITLES = {
    SOURCE_TOKENS: "tokens of the source: <cls>, the words, <eos>",
    TARGET_TOKENS: "steps of the decoder: the words of the output, <eos>",
    SLOTS: "slots of the memory of a Turing machine",
}
"""Columns of the sample table with the lengths of axes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedTranslator(CheckedModel[Translator, TranslationModelConfig]):
    """A translation model: sequences written for sequences, and where it looks meanwhile.

    `inputs` of its methods are those of `bioattn.inference.inputs`: the path of a FASTA file, a sequence,
    sequences by name, a list or a table.
    """

    family: ClassVar[str] = "translation"

    def predict(
        self,
        inputs: Inputs,
        *,
        beam: int = 1,
        number: int = 1,
        length_penalty: float = 0.6,
        samples: int = 0,
        temperature: float = 1.0,
        top_p: float = 1.0,
        length: int | None = None,
        seed: int = 0,
        constraint: str | None = None,
        forbid: Path | str | None = None,
        genetic_code: int | None = None,
    ) -> "pd.DataFrame":
        """Write outputs for sources: the table of `run translation`, a row per output.

        beam: outputs that are followed at once; 1: the likeliest token each time. number: outputs to give of a
        beam. length_penalty: 0 orders outputs by likelihood alone. samples: draw so many outputs instead, by
        `seed`, at this temperature, from the likeliest tokens that hold `top_p` of the probability. length: most
        tokens of an output; None = 4 for each of the source, and 10. constraint: `protein` for codons of the given
        residues only, by the NCBI's `genetic_code` (None: the dataset's). forbid: a file of motifs that stand on
        neither strand.

        Raises: FormatError for sources that the model cannot read; SettingsError for a constraint of other models.
        """
        wanted = None if constraint is None else chosen(OutputConstraint, "constraint", constraint)
        avoided = None if forbid is None else Path(forbid)
        search = Search(
            beam=beam,
            number=number,
            length_penalty=length_penalty,
            samples=samples,
            temperature=temperature,
            top_p=top_p,
            length=length,
            seed=seed,
        )
        with python_call(Search, **asdict(search)):
            sources = self.read(inputs)
            limits = _constraint(self, sources, wanted, avoided, genetic_code, length)
            return _table(output_rows(self, sources, search, limits), OUTPUT_COLUMNS)

    def score(self, inputs: Inputs, targets: Inputs) -> "pd.DataFrame":
        """Score given outputs, which are called as their sources: the table of `run translation --targets`.

        Raises: FormatError for sequences that the model cannot read; BioattnError for an output without a source.
        """
        with python_call():
            pairs = with_targets(self.read(inputs), targets, self.model)
            return _table(given_rows(self, pairs), GIVEN_COLUMNS)

    def attention(
        self,
        inputs: Inputs,
        *,
        targets: Inputs | None = None,
        batch_size: int | None = None,
        **choices: Unpack[AttentionKeywords],
    ) -> Attention:
        """Return the attention weights of a pass over given outputs, or over the likeliest ones, in memory.

        targets: outputs that are called as their sources; None = the likeliest token at each step. batch_size:
        pairs per forward pass; None = as memory allows. choices: what is kept, as `AttentionKeywords` has them:
        sites, heads, dtype, reduce, top_k, value_weighted.

        Raises: as `score`; BioattnError for sites or heads that the model lacks.
        """
        options = attention_options(**choices)
        with python_call(ExportAttention, batch_size=batch_size):
            work, layout, _ = _maps(self, inputs, targets, options, batch_size)
            return Attention(work.collect(layout))

    head_scorer = method("translation.check", "TranslationHeadScorer")
    check_probe = method("translation.check", "make_probe")

    def read(self, inputs: Any) -> dict[str, Tokens]:
        """Tokens of sources, by name; warns of those that are longer than in the training."""
        sources = read_sources(inputs, self.model.source)
        longer = sum(len(each) > self.config.longest_source for each in sources.values())
        if longer:
            LOGGER.warning(
                f"{counted(longer, 'source')} of {len(sources):,} longer than the "
                f"{self.config.longest_source:,} tokens that the model was trained on"
            )
        return sources


def load_translator(folder: Path, device: torch.device) -> LoadedTranslator:
    return LoadedTranslator.of_folder(folder, device, TranslationModelConfig, Translator)


def with_others(loaded: LoadedTranslator, folders: Sequence[Path]) -> LoadedTranslator:
    """A model together with those of other folders. Raises: BioattnError also for a model of another alphabet."""
    models = [loaded.model]
    for folder in folders:
        model = load_translator(folder, loaded.device).model
        for side in ("source", "target"):
            one, other = getattr(loaded.model, side), getattr(model, side)
            if one.tokens != other.tokens:
                its = "written in other characters" if one.alphabet is other.alphabet else str(other.alphabet)
                raise BioattnError(
                    f"--ensemble {folder}: its {side}s are {its}, those of {loaded.path} {one.alphabet}"
                )
        models.append(model)
    return replace(loaded, model=Ensemble(models)) if folders else loaded


def _table(rows: Iterator[tuple[Any, ...]], columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns)).set_index("id")


def _maps(
    loaded: LoadedTranslator,
    inputs: Any,
    targets: Any,
    options: AttentionOptions,
    batch_size: int | None,
    progress: Progress = SILENT,
) -> tuple[Work, FileLayout, Mapping[str, Pair]]:
    """How maps of given outputs are computed or, without `targets`, of the likeliest token at each step; and the
    pairs. Raises: BioattnError for sites or heads that the model lacks."""
    model = loaded.model
    without = "recurrent ones do not attend; train recurrent-attention"
    sites = choose_sites(loaded.sites, options.sites, without=without)
    sources = loaded.read(inputs)
    if targets is not None:
        pairs = with_targets(sources, targets, model)
    else:
        pairs = {}
        progress.begin("sources", len(sources))
        for name, source in sources.items():
            best = translate(loaded, source, Search(), name)[0]
            pairs[name] = Pair(source, np.array(best.tokens, dtype=np.int64))
            progress.advance(1)
        progress.end()

    def forward(pairs: Sequence[Pair]) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        batch = batch_of(pairs).to(loaded.device)
        model(batch.source_BS, batch.prefix_BT)
        return {}

    samples = _samples(pairs, model)
    if isinstance(inputs, Path):
        digest = sha256_of(inputs)
    else:
        held = (name.encode() + b"\0" + tokens.tobytes() for name, tokens in sources.items())
        digest = hashlib.sha256(b"".join(held)).hexdigest()
    work, layout = attention_work(
        loaded,
        Source(list(pairs.values()), samples),
        forward,
        options,
        sites=sites,
        noun="pair",
        columns=[Column(name, "int32", title) for name, title in TITLES.items() if name in samples.columns],
        lists=[
            ListColumn("source_names", TEXT, "source_token", SOURCE_TOKENS, long_name="tokens of the source"),
            ListColumn("target_names", TEXT, "target_token", TARGET_TOKENS, long_name="tokens of the output"),
        ],
        attributes={"input_sha256": digest},
        batch_size=batch_size,
    )
    return work, layout, pairs


def _samples(pairs: Mapping[str, Pair], model: Translator) -> Samples:
    """Names, lengths, and what stands at each position; a step is called by the token that it writes."""
    lengths = [model.lengths(len(pair.source) + 2, len(pair.target) + 1) for pair in pairs.values()]
    columns = {name: np.array([each[name] for each in lengths], dtype=np.int32) for name in lengths[0]}
    read = [model.source.names(with_ends(pair.source)) for pair in pairs.values()]
    written = [model.target.names(np.append(pair.target, EOS)) for pair in pairs.values()]
    return Samples({"id": list(pairs), **columns}, {"source_names": read, "target_names": written})


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    settings.refuse((*ONLY_PROMOTERS, "window"), "translation models")
    loaded = load_translator(settings.model, running.device(settings.device, settings.threads))
    options = settings.options()
    work, layout, pairs = _maps(
        loaded, settings.sequences, settings.targets, options, settings.batch_size, running.progress
    )
    report = write_attention_file(
        settings, running, work, layout, targets=[pair.target.tolist() for pair in pairs.values()]
    )
    if settings.targets is not None:
        report.inputs = {"targets": settings.targets}
    return report


def run(settings: TranslationRun, running: Running) -> RunReport:
    defaults = {"constraint": None, "forbid": None, "samples": 0, "length": None, "beam": 1}
    for name, default in defaults.items():
        if settings.targets is not None and getattr(settings, name) != default:
            raise SettingsError(f"--{name} is for outputs that are written; --targets are given")
    loaded = with_others(
        load_translator(settings.model, running.device(settings.device, settings.threads)), settings.ensemble
    )
    sources = loaded.read(settings.sources)
    rows: Any
    columns: tuple[str, ...] = GIVEN_COLUMNS
    if settings.targets is not None:
        pairs = with_targets(sources, settings.targets, loaded.model)
        rows = given_rows(loaded, pairs, running.progress)
    else:
        given = settings.constraint, settings.forbid, settings.genetic_code, settings.length
        columns, constraint = OUTPUT_COLUMNS, _constraint(loaded, sources, *given)
        rows = output_rows(loaded, sources, settings, constraint, running.progress)
    as_fasta = settings.targets is None and settings.output.name.removesuffix(".gz").endswith(FASTA_NAMES)
    written = 0
    with stream_output(settings.output, running) as (file, outputs):
        if not as_fasta:
            file.write(tsv(columns))
        for row in rows:
            line = tsv(row)
            if as_fasta:
                name, rank, _, log_likelihood, _, text = row
                name = name if rank == 1 else f"{name}/{rank}"
                line = format_record(name, f"log_likelihood={log_likelihood:.7g}", text)
            file.write(line)
            written += 1
    sentences = [f"wrote {path}: {counted(written, 'output')}" for path in outputs]
    return RunReport(*sentences, outputs=outputs, written=written)


def _constraint(
    loaded: LoadedTranslator,
    sources: Mapping[str, Tokens],
    wanted: OutputConstraint | None,
    forbid: Path | None,
    genetic_code: int | None,
    length: int | None,
) -> Constraint | None:
    """Raises: SettingsError for a constraint that is not for the model; FormatError as `read_motifs`."""
    if wanted is None and forbid is None:
        return None
    config, protein = loaded.config, wanted is OutputConstraint.PROTEIN
    sides = config.source_alphabet, config.target_alphabet
    if protein and sides != (PairAlphabet.PROTEIN, PairAlphabet.CODON):
        raise SettingsError(
            f"--constraint protein: the model writes {sides[1]} for {sides[0]}, not codons for proteins"
        )
    if protein and length is not None:
        raise SettingsError("--length: --constraint protein decides how long outputs are")
    if forbid is not None and config.target_alphabet not in (PairAlphabet.DNA, PairAlphabet.CODON):
        raise SettingsError(
            f"--forbid: motifs are for outputs of DNA or codons, not {config.target_alphabet}"
        )
    code = config.genetic_code if genetic_code is None else genetic_code
    check_genetic_code(code)
    unknown = {name: number for name, each in sources.items() if (number := int((each == UNKNOWN).sum()))}
    if protein and unknown:
        LOGGER.warning(
            f"{counted(sum(unknown.values()), 'residue')} of {counted(len(unknown), 'source')} are none of the 20 "
            f"amino acids: any codon may stand there; the first in {next(iter(unknown))}"
        )
    motifs = Motifs([] if forbid is None else read_motifs(forbid))
    return Constraint(loaded.model.target, motifs, protein=protein, genetic_code=code)
