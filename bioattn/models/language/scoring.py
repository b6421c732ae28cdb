"""What a model makes of sequences: embeddings, contacts, and how likely it finds them and their mutants.

Sequences, or windows of long ones, are read together with others of about their length.

Shape suffixes: B sequences, L tokens, M masked copies, N words, K layers, C channels, V tokens of the vocabulary,
S sites, H heads, Q queries, R residues.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from Bio.Data.IUPACData import protein_letters_3to1
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, MapTiles, Tile
from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import TableReader, open_table
from bioattn.inference.passes import finite_results, padded, require_finite
from bioattn.models.language.config import Pool, Score, Shape
from bioattn.models.language.layers import is_word
from bioattn.models.language.source import TokenSource, Window, windows
from bioattn.sequences.vocabulary import CLS, MASK, PAD, UNKNOWN, Vocabulary
from bioattn.store.training_record import TRAINING_RECORD

if TYPE_CHECKING:
    import pandas as pd

    from bioattn.models.language.folder import LoadedLanguageModel

TOKENS_AT_ONCE = {"cpu": 1 << 11}
"""Tokens of a forward pass by type of device: what the caches of a core hold."""
TOKENS_ELSEWHERE = 1 << 16
BIAS_BYTES = 1 << 29
"""Most that biases of distances, added to the masks of all sequences of a pass, take."""
READINGS = 1 << 10
"""Masked sequences whose probabilities are kept, as mutants of one position share them."""
SEQUENCE, MUTANT = "sequence", "mutant"
_LETTER = rf"([A-Za-z]|{'|'.join(protein_letters_3to1)})"
_SUBSTITUTION = re.compile(rf"{_LETTER}(\d{{1,9}}){_LETTER}")
Tokens = NDArray[np.integer]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of sequences."""

    score: Score = Score.NONE
    layers: tuple[int, ...] = ()
    """Whose channels are embeddings: 0 is what goes into the first layer, -1 the last one; none: no embeddings."""
    pool: Pool | None = Pool.MEAN
    """None for the channels of each word."""
    contacts: bool = False


class Output(NamedTuple):
    """What a model makes of a sequence; None for what was not asked for."""

    embedding: NDArray[np.float32] | None
    """(K, C), or of each word (N, K, C)."""
    likely: NDArray[np.float64] | None
    """ln of the probability of each token, special ones included; NaN where none was asked for."""


def layer_numbers(layers: Sequence[int], loaded: "LoadedLanguageModel") -> tuple[int, ...]:
    """Numbers of layers from 0, negative ones counted from the last. Raises: SettingsError for one that is not
    there."""
    most = loaded.config.layers
    for layer in layers:
        if not -most - 1 <= layer <= most:
            raise SettingsError(
                f"--layers {layer}: the model has {most} layers; give 0 (what goes into the first) to {most}, or "
                f"-1 (the last) to {-most - 1}"
            )
    return tuple(layer % (most + 1) for layer in layers)


@torch.inference_mode()
def outputs(
    loaded: "LoadedLanguageModel",
    sequences: Sequence[Tokens],
    wanted: Wanted,
    most: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Output]:
    """What a model makes of sequences `<cls> … <eos>`, in their order.

    An encoder-decoder reads the whole sequence, and its decoder's predictions are scored; its embeddings are those
    of the encoder. Of rows of an alignment the gaps are given: they are NaN, and the probability is one of
    residues alone. most: tokens that are read at once, None = the model's context; longer sequences are read in
    `windows`: a word's channels and probability are of the one that keeps it, and `<cls>` is the mean over all.
    advance: told the number of words of which all is known.

    Raises: SettingsError for layers, or a `<cls>`, that are not there.
    """
    shape, most = loaded.config.shape, most or loaded.config.context
    masked = wanted.score is Score.MASKED and shape is Shape.ENCODER
    in_pass = wanted.score is not Score.NONE and not masked
    if masked:
        loaded.require_mask()
    if wanted.layers and wanted.pool is Pool.CLS and not loaded.vocabulary.begins:
        raise SettingsError(f"{loaded.path}: reads no token before the first word; leave --pool cls out")
    found = _Found(loaded, sequences, wanted)

    def parts(*, causal: bool) -> list[Window]:
        return [
            window
            for number, tokens in enumerate(sequences)
            for window in windows(tokens, most, loaded.vocabulary, causal=causal, number=number)
        ]

    own = parts(causal=shape is Shape.DECODER)
    together = in_pass and shape is not Shape.ENCODER_DECODER
    if wanted.layers or together:
        for batch in batches(loaded, own, lambda part: len(part.tokens)):
            found.read(batch, score=together)
            if together or wanted.score is Score.NONE:
                advance(sum(len(part.words) for part in batch))
    if in_pass and not together:
        for batch in batches(loaded, parts(causal=True), lambda part: len(part.tokens)):
            found.decode(batch)
            advance(sum(len(part.words) for part in batch))
    if masked:
        copies = [(part, place) for part in own for place in part.words.tolist()]
        for each in batches(loaded, copies, lambda copy: len(copy[0].tokens), times=2):
            found.restore(each)
            advance(len(each))
    embeddings: Iterable[NDArray[np.float32] | None] = [None] * len(sequences)
    if found.layers and wanted.pool is None:
        embeddings = (np.concatenate([each for _, each in sorted(own.items())]) for own in found.words)
    elif found.layers:
        embeddings = (each / max(1, size) for each, size in zip(found.pooled, found.pooled_of, strict=True))
    likely = [None] * len(sequences) if wanted.score is Score.NONE else found.likely
    return list(map(Output, embeddings, likely))


def batches(
    loaded: "LoadedLanguageModel", items: Sequence[Item], length: Callable[[Item], int], times: int = 1
) -> Iterator[list[Item]]:
    """Items of about one length, the longest first, so many that a pass has room for them. length: in tokens."""
    most = times * TOKENS_AT_ONCE.get(loaded.device.type, TOKENS_ELSEWHERE)
    heads = loaded.config.num_heads if loaded.config.form.buckets else 0
    waiting = iter(sorted(items, key=length, reverse=True))
    for longest in waiting:
        size = most // length(longest)
        if heads:
            size = min(size, BIAS_BYTES // (4 * heads * length(longest) ** 2))
        yield [longest, *islice(waiting, max(0, size - 1))]


class _Found:
    """What is known of sequences so far."""

    def __init__(self, loaded: "LoadedLanguageModel", sequences: Sequence[Tokens], wanted: Wanted) -> None:
        self.loaded, self.model, self.device = loaded, loaded.model, loaded.device
        self.wanted, self.layers = wanted, layer_numbers(wanted.layers, loaded)
        self.likely = [np.full(len(tokens), np.nan) for tokens in sequences]
        self.pooled: list[Any] = [0.0] * len(sequences)
        """Sums of channels (K, C)."""
        self.pooled_of = [0] * len(sequences)
        """Of how many tokens."""
        self.words: list[dict[int, NDArray[np.float32]]] = [{} for _ in sequences]
        """Channels (N, K, C) by the first word of a window."""

    def read(self, batch: Sequence[Window], *, score: bool) -> None:
        """Read windows; score: also say how likely their words are."""
        tokens_BL = padded([part.tokens for part in batch], PAD).to(self.device)
        last = [self.model.config.layers] if score else []
        channels = self.model.layers(tokens_BL, [*self.layers, *last])
        if self.layers:
            self._embed(batch, channels[: len(self.layers)])
        if score:
            self._score(batch, tokens_BL, channels[-1], int(self.model.config.shape is Shape.DECODER))

    def decode(self, batch: Sequence[Window]) -> None:
        """Read windows with the encoder, and say how likely the decoder finds their words."""
        source_BS = padded([part.tokens for part in batch], PAD).to(self.device)
        begins = int(self.loaded.vocabulary.begins)
        # A decoder whose encoder sees no <cls> begins with one.
        tokens_BL = source_BS if begins else F.pad(source_BS, (1, -1), value=CLS)
        self._score(batch, source_BS, self.model.hidden(tokens_BL, source_BS), begins)

    def restore(self, batch: Sequence[tuple[Window, int]]) -> None:
        """Mask a word of each window, and say how likely it is."""
        copies_ML = padded([part.tokens for part, _ in batch], PAD).to(self.device)
        row_M = torch.arange(len(batch), device=self.device)
        place_M = torch.tensor([place for _, place in batch], device=self.device)
        wanted_M = copies_ML[row_M, place_M].clone()
        copies_ML[row_M, place_M] = MASK
        hidden_MC = self.model.hidden(copies_ML, place_B=place_M)[:, 0]
        likely_M = self._likely(hidden_MC, place_M, wanted_M)
        for (part, place), likely in zip(batch, likely_M, strict=True):
            self.likely[part.number][part.first + place] = likely

    def _embed(self, batch: Sequence[Window], channels: Sequence[Tensor]) -> None:
        """channels: (B, L, C) of each layer."""
        places = [part.words for part in batch]
        if self.wanted.pool is Pool.CLS:
            at_end = self.model.config.shape is Shape.DECODER
            places = [np.array([len(part.tokens) - 1 if at_end else 0]) for part in batch]
        sizes = [len(each) for each in places]
        if self.wanted.pool is None:
            row_N, place_N = self._index(places)
            words_NKC = torch.stack([each[row_N, place_N] for each in channels], 1).float().cpu().numpy()
            for part, words in zip(batch, np.split(words_NKC, np.cumsum(sizes)[:-1]), strict=True):
                self.words[part.number][part.first] = words
            return
        taken_BL = np.zeros((len(batch), channels[0].shape[1]), np.float32)
        for taken_L, each in zip(taken_BL, places, strict=True):
            taken_L[each] = 1
        taken_B1L = torch.from_numpy(taken_BL)[:, None].to(self.device)
        sums_BKC = torch.cat([taken_B1L @ each.float() for each in channels], 1).cpu().numpy()
        for part, size, sums_KC in zip(batch, sizes, sums_BKC, strict=True):
            self.pooled[part.number] = self.pooled[part.number] + sums_KC
            self.pooled_of[part.number] += size

    def _score(self, batch: Sequence[Window], tokens_BL: Tensor, hidden_BLC: Tensor, before: int) -> None:
        """before: by how many places the channels that predict a token lie before it."""
        first = int(self.loaded.vocabulary.begins or before)
        places = [np.arange(len(part.tokens))[part.kept] for part in batch]
        if self.model.config.shape is Shape.ENCODER:
            places = [part.words for part in batch]
        places = [each[each >= first] for each in places]
        row_N, place_N = self._index(places)
        hidden_NC = hidden_BLC[row_N, place_N - before]
        likely_N = self._likely(hidden_NC, place_N - before, tokens_BL[row_N, place_N])
        ends = np.cumsum([len(each) for each in places])
        for part, own, likely in zip(batch, places, np.split(likely_N, ends[:-1]), strict=True):
            self.likely[part.number][part.first + own] = likely

    def _index(self, places: Sequence[NDArray[np.intp]]) -> tuple[Tensor, Tensor]:
        """Rows and places of the tokens of a batch."""
        rows = np.repeat(np.arange(len(places)), [len(each) for each in places])
        row_N, place_N = (torch.from_numpy(each).to(self.device) for each in (rows, np.concatenate(places)))
        return row_N, place_N

    def _likely(self, hidden_NC: Tensor, place_N: Tensor, wanted_N: Tensor) -> NDArray[np.float64]:
        """ln of the probabilities of tokens; of a gap NaN. place_N: positions that the channels are of."""
        logits_NV = self.model.logits(hidden_NC, place_N).float()
        gap = self.loaded.vocabulary.gap
        if gap is not None:
            logits_NV[:, gap] = -torch.inf
        likely_NV = logits_NV.log_softmax(-1)
        if gap is not None:
            likely_NV[:, gap] = torch.nan
        likely_N: NDArray[np.float64] = likely_NV.gather(-1, wanted_N[:, None])[:, 0].double().cpu().numpy()
        return likely_N


def total(loaded: "LoadedLanguageModel", tokens: Tokens, likely: NDArray[np.float64]) -> tuple[int, float]:
    """The words of a sequence that were predicted, and the sum of ln of their probabilities.

    `<eos>`, gaps and unknown words do not count: training never asks for them. likely: of `outputs`.
    """
    asked = is_word(tokens) & (tokens != loaded.vocabulary.gap) & (tokens != UNKNOWN)
    if loaded.config.shape is Shape.DECODER and not loaded.vocabulary.begins:
        asked[0] = False
    return int(asked.sum()), float(likely[asked].sum())


class _ContactLogits:
    """An `AttentionReceiver` that adds up what the maps of one protein say of contacts (Rao et al. 2021).

    Of a head's map between residues, plus its transpose, the average product correction is weighed; here with the
    diagonal in its means, as the regression was fitted. Maps come in tiles of a head's queries.
    """

    def __init__(self, weight_of: Mapping[str, Tensor], is_residue_L: Tensor) -> None:
        """weight_of: of the heads (H,), by site."""
        self._weight_of, self._is_residue_L = weight_of, is_residue_L.float()
        length = len(is_residue_L)
        self._logits_LL = self._is_residue_L.new_zeros(length, length)
        self._sums_HL = {
            name: weight_H.new_zeros(len(weight_H), length) for name, weight_H in weight_of.items()
        }

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        assert tile is not None
        assert tile.head is not None
        rows = slice(tile.start, tile.start + weights.shape[2])
        map_QL = weights[0, 0].float() * self._is_residue_L * self._is_residue_L[rows, None]
        self._logits_LL[rows] += self._weight_of[site.name][tile.head] * map_QL
        # A row of the map plus its transpose sums to the sums of its row and its column.
        self._sums_HL[site.name][tile.head, rows] += map_QL.sum(1)
        self._sums_HL[site.name][tile.head] += map_QL.sum(0)

    def logits(self) -> Tensor:
        """(R, R), without the intercept."""
        logits_LL = self._logits_LL + self._logits_LL.T
        for name, sums_HL in self._sums_HL.items():
            scaled_HL = sums_HL * (self._weight_of[name] / sums_HL.sum(1))[:, None]
            logits_LL -= scaled_HL.T @ sums_HL
        residues = self._is_residue_L.bool()
        return logits_LL[residues][:, residues]


@torch.inference_mode()
def contacts(loaded: "LoadedLanguageModel", tokens: Tokens, name: str, most: int) -> NDArray[np.float32]:
    """Probabilities (R, R) that residues touch, by the regression of a model's checkpoint (ESM-2).

    name: of the protein, for messages. Raises: BioattnError for a model without one, or a longer protein.
    """
    model = loaded.model
    trained = loaded.path is not None and (loaded.path / TRAINING_RECORD).is_file()
    if trained or model.contact_weight_SH is None or model.contact_bias_1 is None:
        raise BioattnError(
            f"{loaded.path}: holds no regression from attention to contacts, as published ESM-2 does; fit one: "
            "`bioattn export attention`, then `bioattn export contacts --fit`"
        )
    if len(tokens) > most:
        raise BioattnError(
            f"{name}: has {len(tokens):,} tokens; contacts need at most the {most:,} read at once"
        )
    names = [f"language.{model.read_by}.{number}" for number in range(model.config.layers)]
    weights = model.contact_weight_SH.float()
    receiver = _ContactLogits(
        dict(zip(names, weights, strict=True)), torch.from_numpy(is_word(tokens)).to(loaded.device)
    )
    tokens_1L = torch.from_numpy(tokens.astype(np.int64))[None].to(loaded.device)
    with capture(names, receiver, tiles=MapTiles(None)):
        model.embeddings(tokens_1L)
    found: NDArray[np.float32] = (receiver.logits() + model.contact_bias_1.float()).sigmoid().cpu().numpy()
    with finite_results(f"sequence {name!r}", loaded.path):
        require_finite(found, "contacts")
    return found


class Variant(NamedTuple):
    """One or more substitutions of one sequence."""

    sequence: str
    mutant: str
    """As written."""
    letters: Mapping[int, str]
    """By position from 0, the new letter."""
    where: str
    """File and line, for messages."""


def read_variants(
    given: "Path | pd.DataFrame | Sequence[str]", sequences: Mapping[str, str]
) -> list[Variant]:
    """The mutants of a table with the columns `sequence` (a name of the FASTA) and `mutant`: old letter, position
    from 1 and new letter, such as `H24C` or, by HGVS, `p.His24Cys`; several are joined by `:`, `,` or `;`.
    sequences: by name.

    given: the path of a table, a table, or mutants alone. Without a column `sequence` the FASTA must hold one
    sequence, which all are of.
    """
    import pandas as pd

    if isinstance(given, Path):
        table = open_table(given)
    else:
        frame = given if isinstance(given, pd.DataFrame) else pd.DataFrame({MUTANT: list(given)})
        rows = [(row, list(map(str, cells))) for row, cells in enumerate(frame.itertuples(index=False), 1)]
        table = TableReader(Path("variants"), tuple(map(str, frame.columns)), 0, rows, [], iter(()))
    path = table.path
    mutant = table.column(MUTANT, "--variants")
    named = SEQUENCE in table.header
    if not named and len(sequences) != 1:
        table.column(SEQUENCE, "--variants")
    only = next(iter(sequences))
    variants = []
    for line, cells in table.rows():
        name = cells[table.header.index(SEQUENCE)] if named else only
        if name not in sequences:
            raise not_there(f"{path}:{line}: sequence", name, "the FASTA", "sequence", sequences)
        where, text, sequence, letters = f"{path}:{line}", cells[mutant], sequences[name], dict[int, str]()
        for part in re.split(r"[:,;]", text.removeprefix("p.").strip("[]()")):
            match = _SUBSTITUTION.fullmatch(part.strip())
            if match is None:
                raise FormatError(
                    f"{where}: the mutant {text!r}; write old letter, position and new letter: H24C"
                )
            place = int(match[2]) - 1
            old, new = (protein_letters_3to1.get(code, code).upper() for code in match.group(1, 3))
            if not 0 <= place < len(sequence):
                raise FormatError(f"{where}: {part}: {name} has {len(sequence):,} letters")
            if (there := sequence[place].upper()) != old:
                raise FormatError(f"{where}: {part}: position {place + 1} of {name} (from 1) is {there}")
            if place in letters:
                raise FormatError(f"{where}: the mutant {text!r} names a position twice")
            letters[place] = new
        variants.append(Variant(name, text, letters, where))
    return variants


def variant_scores(
    loaded: "LoadedLanguageModel",
    source: TokenSource,
    sequences: Mapping[str, str],
    variants: list[Variant],
    most: int | None = None,
    score: Score = Score.MASKED,
) -> Iterator[float | None]:
    """ln of how much likelier each mutant is; above 0: the model prefers it. None where a word that differs is
    unknown.

    Encoder: all words that differ are masked at once, unless `score` is one-pass, and ln of the probabilities of
    new and old ones compared (masked and wild-type marginals, Meier et al. 2021). Decoder: the difference of the
    log-likelihoods of both sequences. most: tokens that are read at once, None = the model's context; of a longer
    sequence an encoder reads the window with the substitutions in its middle, and a decoder `windows`.
    """
    tokens_of = dict(zip(source.samples.ids, source.items, strict=True))
    is_encoder = loaded.config.shape is Shape.ENCODER
    wanted = Wanted(score=score)
    if is_encoder and score is not Score.ONE_PASS:
        loaded.require_mask()

    @lru_cache(READINGS)
    def likely(read: bytes) -> Tensor:
        tokens_1L = torch.frombuffer(bytearray(read), dtype=torch.int64)[None].to(loaded.device)
        logits_LV: Tensor = loaded.model(tokens_1L)[0].float()
        return logits_LV.log_softmax(-1).cpu()

    @lru_cache(READINGS)
    def sum_of(read: bytes) -> float:
        tokens = np.frombuffer(read, np.int64)
        (found,) = outputs(loaded, [tokens], wanted, most)
        assert found.likely is not None
        return total(loaded, tokens, found.likely)[1]

    for variant in variants:
        old = tokens_of[variant.sequence].astype(np.int64)
        new = _mutated(loaded.vocabulary, old, sequences[variant.sequence], variant, is_encoder=is_encoder)
        differ = (old != new) if len(old) == len(new) else slice(None)
        if UNKNOWN in old[differ] or UNKNOWN in new[differ]:
            yield None
        elif is_encoder:
            old, new = _around(loaded, old, new, variant, most or loaded.config.context)
            places = np.flatnonzero(old != new)
            read = old.copy()
            if score is not Score.ONE_PASS:
                read[places] = MASK
            with torch.inference_mode():
                likely_PV = likely(read.tobytes())[places]
            row = torch.arange(len(places))
            yield float((likely_PV[row, new[places]] - likely_PV[row, old[places]]).sum())
        else:
            yield sum_of(new.tobytes()) - sum_of(old.tobytes())


def _mutated(
    vocabulary: Vocabulary, tokens: NDArray[np.integer], sequence: str, variant: Variant, *, is_encoder: bool
) -> NDArray[np.int64]:
    letters = list(sequence)
    for place, letter in variant.letters.items():
        letters[place] = letter
    where = f"{variant.where}: {variant.sequence} {variant.mutant}"
    new = vocabulary.framed(vocabulary.words("".join(letters), where))
    if is_encoder and len(new) != len(tokens):
        raise BioattnError(
            f"{where}: makes {len(new):,} tokens of {len(tokens):,}, which an encoder cannot compare"
        )
    return new


def _around(
    loaded: "LoadedLanguageModel", old: NDArray[np.int64], new: NDArray[np.int64], variant: Variant, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of sequences of more than `most` tokens the window with all substitutions in its middle."""
    places = np.flatnonzero(old != new)
    head = int(loaded.vocabulary.begins)
    if len(old) <= most or not len(places):
        return old, new
    room = most - head
    if places[-1] - places[0] >= room:
        raise BioattnError(
            f"{variant.where}: {variant.mutant}: its substitutions lie further apart than the {room:,} "
            "tokens that the model reads at once"
        )
    first = int(np.clip((places[0] + places[-1] + 1 - room) // 2, head, len(old) - room))
    window = [*range(head), *range(first, first + room)]
    return old[window], new[window]
