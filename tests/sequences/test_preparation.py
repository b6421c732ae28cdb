"""Datasets of sequences and their vocabularies."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.errors import FormatError
from bioattn.formats.nucleotides import decode
from bioattn.io.records import audit_path
from bioattn.sequences.choices import Alphabet, LanguagePreparation, SequenceSplit
from bioattn.sequences.preparation import prepare_sequences
from bioattn.sequences.sequence_dataset import open_sequence_dataset
from bioattn.sequences.vocabulary import Vocabulary


def write_fasta(path: Path, records: dict[str, str]) -> Path:
    """Records in lines of seven letters."""
    lines = []
    for name, sequence in records.items():
        lines += [f">{name} x", *(sequence[i : i + 7] for i in range(0, len(sequence), 7))]
    path.write_text("\n".join(lines) + "\n")
    return path


def random_dna(number: int, length: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list("ACGT"), length)) for _ in range(number)]


def prepared(folder: Path, records: dict[str, str], **settings: object) -> Path:
    """The dataset of some records."""
    output = folder / "x.dataset.h5"
    fasta = (write_fasta(folder / "x.fa", records),)
    prepare_sequences(LanguagePreparation(fasta=fasta, output=output, **settings))  # type: ignore[arg-type]
    return output


def test_every_record_is_stored_and_kept_on_one_side(tmp_path: Path):
    records = {f"g{i}": each for i, each in enumerate(random_dna(40, 60))}
    dataset = open_sequence_dataset(prepared(tmp_path, records, split=SequenceSplit.RECORD))
    for number, sequence in enumerate(records.values()):
        start, end = dataset.offsets[number : number + 2]
        assert decode(np.asarray(dataset.codes[start:end])) == sequence
    assert sorted(dataset.segments.record.tolist()) == list(range(40))
    assert [int((dataset.segments.split == side).sum()) for side in (TRAIN, VALIDATION, TEST)] == [32, 4, 4]


def test_related_genes_stay_on_one_side(tmp_path: Path):
    """Twenty pairs, of which the second differs from the first in every 20th base."""
    records = {}
    for i, sequence in enumerate(random_dna(20, 200)):
        mutated = list(sequence)
        for place in range(10, 200, 20):
            mutated[place] = "ACGT"["ACGT".index(mutated[place]) - 1]
        records |= {f"a{i}": sequence, f"b{i}": "".join(mutated)}
    dataset = open_sequence_dataset(prepared(tmp_path, records))
    assert dataset.metadata["split"] == {"by": "homology", "groups": 20, "largest_group": 2}
    side = dict(zip(dataset.ids, dataset.segments.split.tolist(), strict=True))
    assert all(side[f"a{i}"] == side[f"b{i}"] for i in range(20))
    assert {each["related"] for each in dataset.metadata["leakage"]} == {0.0}


def test_leakage_is_measured_for_a_split_that_parts_relatives(tmp_path: Path):
    first, second = random_dna(2, 300)
    table = tmp_path / "split.tsv"
    table.write_text("gene\tsplit\na\ttrain\nb\ttest\nc\ttest\n")
    path = prepared(tmp_path, {"a": first, "b": first[:250], "c": second}, split_table=table)
    (found,) = open_sequence_dataset(path).metadata["leakage"]
    assert found == {"side": "test", "against": "train", "pieces": 2, "related": 0.5}


def test_a_chromosome_is_cut_by_position(tmp_path: Path):
    (sequence,) = random_dna(1, 20_000)
    dataset = open_sequence_dataset(prepared(tmp_path, {"chr": sequence}, kmer=3))
    places = list(zip(dataset.segments.start, dataset.segments.end, dataset.segments.split, strict=True))
    assert places == [(0, 15_999, TRAIN), (15_999, 18_000, VALIDATION), (18_000, 20_000, TEST)]
    assert decode(np.asarray(dataset.segment(1))) == sequence[15_999:18_000]


def test_broken_genes_are_dropped_and_the_audit_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    genes = {f"g{i}": each for i, each in enumerate(random_dna(30, 30))}
    path = prepared(tmp_path, {**genes, "short": "ATGA", "empty": ""}, alphabet=Alphabet.CODON)
    stopped = [
        name
        for name, bases in genes.items()
        if any(bases[place : place + 3] in ("TAA", "TAG", "TGA") for place in range(0, 27, 3))
    ]
    assert (
        f"{len(stopped)} records of 32 have a stop codon before the last codon; the first: {stopped[0]}"
        in (caplog.text)
    )
    lines = audit_path(path).read_text().splitlines()
    assert "short\tdropped\t4 bases are not whole codons\t\t4" in lines
    assert "empty\tdropped\tno sequence\t\t0" in lines
    assert len(open_sequence_dataset(path).ids) == 30


def test_the_same_input_gives_the_same_bytes(tmp_path: Path):
    records = {f"g{i}": each for i, each in enumerate(random_dna(30, 40))}
    first = prepared(tmp_path, records).read_bytes()
    assert prepared(tmp_path, records).read_bytes() == first


def test_letters_of_another_alphabet_are_named_with_record_and_position(tmp_path: Path):
    with pytest.raises(FormatError, match=r"x\.fa: a, position 4: .E. is not a DNA letter"):
        prepared(tmp_path, {"a": "ACGEL"})


VOCABULARIES = [
    Vocabulary(Alphabet.DNA),
    Vocabulary(Alphabet.DNA, 3),
    Vocabulary(Alphabet.CODON),
    Vocabulary(Alphabet.PROTEIN),
]


def words_of(vocabulary: Vocabulary, sequence: str) -> list[str]:
    """One token after the other, as the page of the format says."""
    found = []
    while sequence:
        word = sequence[: vocabulary.word]
        if len(word) < vocabulary.word:
            word = word[0]
        found.append(word if set(word) <= set(vocabulary.letters) else "<unk>")
        sequence = sequence[len(word) :]
    return found


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda each: f"{each.alphabet}-{each.word}")
@given(data=st.data())
def test_tokens_are_the_words_of_a_plain_loop(vocabulary: Vocabulary, data: st.DataObject):
    unknown = "X" if vocabulary.alphabet is Alphabet.PROTEIN else "N"
    step = 3 if vocabulary.alphabet is Alphabet.CODON else 1
    size = data.draw(st.integers(1, 10)) * step
    letters = data.draw(
        st.lists(st.sampled_from([*vocabulary.letters, unknown]), min_size=size, max_size=size)
    )
    sequence = "".join(letters)
    tokens = vocabulary.tokenize(vocabulary.encode(sequence.lower(), "record"))
    assert [vocabulary.tokens[each] for each in tokens] == words_of(vocabulary, sequence)
    assert vocabulary.num_tokens(len(sequence)) == len(tokens)
    if unknown not in sequence:
        assert vocabulary.text(tokens) == sequence


@pytest.mark.parametrize(
    ("alphabet", "sequence", "said"),
    [(Alphabet.PROTEIN, "MK1", "record, position 3: '1' is not a residue"), (Alphabet.CODON, "AUG", "RNA")],
)
def test_other_characters_are_named_with_their_position(alphabet: Alphabet, sequence: str, said: str):
    with pytest.raises(FormatError, match=said):
        Vocabulary(alphabet).encode(sequence, "record")
