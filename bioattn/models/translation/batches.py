"""Pairs as the tensors that a model reads, and sources (with outputs, where they are known) of files.

Shape suffixes: B pairs, S source tokens, T steps of the decoder.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import are_nucleotides, count_nucleotides
from bioattn.inference.inputs import HELD, path_in, sequences_in
from bioattn.io.files import sha256_of
from bioattn.models.translation.model import Translator
from bioattn.sequences.choices import PairAlphabet
from bioattn.sequences.pairs import Pair, PairVocabulary, Tokens
from bioattn.sequences.preparation import warn_of_nucleotides
from bioattn.sequences.vocabulary import CLS, EOS, PAD, UNKNOWN
from bioattn.store.schema import Samples

IGNORED = -100
"""Target of padding and of unknown tokens."""
SOURCE_TEXT, TARGET_TEXT = "source_words", "target_words"
"""Lists of the sample table: what the places of the axes are."""


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


def padded(rows: Sequence[Tokens], value: int) -> Tensor:
    """Rows as one tensor (B, longest)."""
    filled = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return torch.from_numpy(filled)


@dataclass(frozen=True, slots=True)
class PairSource:
    """Sources with their outputs: a `bioattn.inference.runner.Source`."""

    path: Path
    sha256: str
    ids: Sequence[str]
    pairs: Sequence[Pair]
    model: Translator

    @property
    def num_samples(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> list[dict[str, int]]:
        return [self.model.lengths(len(each.source) + 2, len(each.target) + 1) for each in self.pairs]

    @property
    def samples(self) -> Samples:
        """Names, lengths, and what stands at each place; a step is called by the token that it writes."""
        columns = {
            name: np.array([each[name] for each in self.lengths], dtype=np.int32) for name in self.lengths[0]
        }
        source, target = self.model.source.tokens, self.model.target.tokens
        return Samples(
            {"id": list(self.ids), **columns},
            {
                SOURCE_TEXT: [[source[t] for t in with_ends(each.source)] for each in self.pairs],
                TARGET_TEXT: [[target[t] for t in np.append(each.target, EOS)] for each in self.pairs],
            },
        )

    def part(self, rows: slice) -> "PairSource":
        return replace(self, ids=self.ids[rows], pairs=self.pairs[rows])

    def batches(self, size: int) -> Iterator["PairSource"]:
        for first in range(0, self.num_samples, size):
            yield self.part(slice(first, first + size))


def read_sources(inputs: Any, vocabulary: PairVocabulary, *, empty: bool = False) -> dict[str, Tokens]:
    """Tokens of the records of a FASTA file, or of what else `bioattn.inference.inputs` reads, by name.

    empty: a record of a file may have no sequence, as an output may. Raises: FormatError as
    `PairVocabulary.tokenize`.
    """
    path = path_in(inputs, ascii_uppercase + "*")
    if path is not None:
        records = [(record.name, record.sequence) for record in read_fasta(path)]
    else:
        records = list(zip(*sequences_in(inputs), strict=True))
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


def digest_of(inputs: Any, sources: Mapping[str, Tokens]) -> str:
    """SHA-256 of a file, or of the names and tokens of sequences in memory."""
    if isinstance(inputs, Path):
        return sha256_of(inputs)
    digest = hashlib.sha256()
    for name, tokens in sources.items():
        digest.update(name.encode() + b"\0" + tokens.tobytes())
    return digest.hexdigest()


def read_given(sources: Any, targets: Any, model: Translator) -> PairSource:
    """Sources with given outputs, which are called as a source or, `NAME/2`, as one of its outputs.

    sources, targets: as `read_sources` takes them.

    Raises: FormatError as `read_sources`; BioattnError for an output without a source.
    """
    known = read_sources(sources, model.source)
    given = read_sources(targets, model.target, empty=True)
    source_of = {name: name if name in known else name.rpartition("/")[0] for name in given}
    lacking = next((name for name, own in source_of.items() if own not in known), None)
    if lacking is not None:
        raise BioattnError(
            f"{targets if isinstance(targets, Path) else HELD}: {lacking}: no source has this name"
        )
    pairs = [Pair(known[source_of[name]], target) for name, target in given.items()]
    path = sources if isinstance(sources, Path) else HELD
    return PairSource(path, digest_of(sources, known), list(given), pairs, model)
