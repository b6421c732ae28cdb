"""Pairs as the tensors that a model reads, and sources (with outputs, where they are known) of files or in memory.

Shape suffixes: B pairs, S source tokens, T steps of the decoder.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import are_nucleotides, count_nucleotides
from bioattn.inference.inputs import HELD, path_in, sequences_in
from bioattn.inference.passes import IGNORED, padded
from bioattn.models.translation.model import Translator
from bioattn.models.translation.preparation import coding_problem
from bioattn.sequences.choices import PairAlphabet
from bioattn.sequences.letters import warn_of_nucleotides
from bioattn.sequences.pairs import Pair, PairVocabulary, Tokens
from bioattn.sequences.vocabulary import CLS, EOS, PAD, UNKNOWN
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")


class Batch(NamedTuple):
    """Some pairs, padded on the right."""

    source_BS: Tensor
    """`<cls>`, the words, `<eos>`."""
    prefix_BT: Tensor
    """`<cls>`, then the words of the target."""
    wanted_BT: Tensor
    """The words of the target, then `<eos>`; `IGNORED` elsewhere."""

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(each.to(device) for each in self))


def batch_of(pairs: Sequence[Pair]) -> Batch:
    wanted = [np.append(np.where(pair.target == UNKNOWN, IGNORED, pair.target), EOS) for pair in pairs]
    return Batch(
        padded([with_ends(pair.source) for pair in pairs], PAD),
        padded([np.append(CLS, pair.target) for pair in pairs], PAD),
        padded(wanted, IGNORED),
    )


def with_ends(words: Tokens) -> Tokens:
    """`<cls>`, the words, `<eos>`."""
    return np.concatenate([[CLS], words, [EOS]])


def read_sources(inputs: Any, vocabulary: PairVocabulary, *, empty: bool = False) -> dict[str, Tokens]:
    """Tokens of the records of a FASTA file, or of what else `bioattn.inference.inputs` reads, by name.

    empty: a record may have no sequence, as an output may.
    """
    path = path_in(inputs, ascii_letters + "*")
    if path is not None:
        records = [(record.name, record.sequence) for record in read_fasta(path)]
    else:
        dna = vocabulary.alphabet in (PairAlphabet.DNA, PairAlphabet.CODON)
        records = list(zip(*sequences_in(inputs, numbers=dna, empty=empty)[:2], strict=True))
    shown = path or HELD
    text = "".join(sequence for _, sequence in records)
    if vocabulary.alphabet is PairAlphabet.PROTEIN and are_nucleotides(count_nucleotides(text), len(text)):
        warn_of_nucleotides(shown, "a model of DNA")
    return {
        name: np.zeros(0, np.int64)
        if empty and not sequence
        else vocabulary.tokenize(sequence, f"{shown}: {name}")
        for name, sequence in records
    }


def with_targets(sources: dict[str, Tokens], targets: Any, model: Translator) -> dict[str, Pair]:
    """Sources with given outputs, which are called as a source or, `NAME/2`, as one of its outputs.

    targets: as `read_sources` takes them. Warns of coding sequences that do not encode their source.

    Raises: FormatError as `read_sources`; BioattnError for an output without a source.
    """
    pairs, wrong = {}, list[str]()
    for name, target in read_sources(targets, model.target, empty=True).items():
        source = sources.get(name, sources.get(name.rpartition("/")[0]))
        if source is None:
            given = targets if isinstance(targets, Path) else HELD
            raise BioattnError(f"{given}: {name}: no source has this name")
        pairs[name] = Pair(source, target)
        problem = coding_problem((model.source.text(source), model.target.text(target)), model.config)
        wrong += [f"{name} ({problem})"] if problem else []
    if wrong:
        LOGGER.warning(
            f"{len(wrong):,} of {counted(len(pairs), 'output')} do not encode their source: {wrong[0]}"
        )
    return pairs
