"""Input features against golden vectors, a plain-loop version of the published steps, and known truths."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bioattn.alignments.alphabet import GAP, MASK, RESIDUES, UNKNOWN, aatype_codes, letters_of, msa_codes
from bioattn.alignments.input_features import (
    assemble_features,
    assign_clusters,
    cluster_deletion_means,
    cluster_profiles,
    column_profile,
    encode_alignment,
    mask_msa,
    replacement_probabilities,
    sample_input_features,
)
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment, split_insertions

Golden = dict[str, np.ndarray]
CASES = ("small", "small_padded", "small_masked", "1a3a", "1UBQ")


def alignment_of(*rows):
    parts = [split_insertions(row.encode()) for row in rows]
    residues = np.array([np.frombuffer(match, np.uint8) for match, _ in parts], np.uint8)
    alignment = Alignment.plain([f"row{number}" for number in range(1, len(rows) + 1)], residues)
    return replace(alignment, insertions=[inserted for _, inserted in parts])


def rows_of_a3m(path, limit):
    """The rows of an A3M as text, read here so that a fault of the reader shows as such in its own tests."""
    rows: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            rows.append("")
        elif rows and not line.startswith("#"):
            rows[-1] += line.strip()
    return rows[:limit]


@pytest.fixture(scope="module")
def golden(shared):
    configs = json.loads((shared / "golden" / "features_config.json").read_text())

    def load(case):
        config = configs[f"features_{case}"]
        limit = None if config["records_read"] == "all" else config["records_read"]
        path = shared.parent / config["a3m"] if shared.name == "shared" else None
        if path is None or not path.is_file():
            path = shared / Path(config["a3m"]).relative_to("shared")
        with np.load(shared / "golden" / f"features_{case}.npz") as arrays:
            return alignment_of(*rows_of_a3m(path, limit)), {name: arrays[name] for name in arrays.files}

    return load


def same(found, wanted):
    assert found.shape == wanted.shape
    if np.issubdtype(wanted.dtype, np.integer):
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def unmasked_features(encoded, clusters, extra):
    """The rows in their order, nothing masked."""
    centres = encoded.msa[:clusters]
    return assemble_features(encoded, centres, np.zeros(centres.shape, np.bool_), extra)


def drawn(encoded, arrays):
    """The features of a golden case; its masks are inputs, not draws."""
    clusters, extra = int(arrays["n_centres"]), int(arrays["n_extra"])
    if "in/mask_position" not in arrays:
        return unmasked_features(encoded, clusters, extra)
    chosen = arrays["in/mask_position"] > 0
    masked = np.where(chosen, arrays["in/bert_replacement"], encoded.msa[:clusters]).astype(np.uint8)
    return assemble_features(encoded, masked, chosen, extra)


@pytest.mark.parametrize("case", CASES)
def test_features_equal_alphafolds(golden, case):
    alignment, arrays = golden(case)
    encoded = encode_alignment(alignment)
    same(encoded.msa, arrays["all/msa"])
    same(encoded.deletions.toarray(), arrays["all/deletion_matrix"].astype(np.int32))
    same(encoded.profile, arrays["hhblits_profile"])

    features = drawn(encoded, arrays)
    for name in ("aatype", "residue_index", "seq_mask", "target_feat", "msa_feat", "msa_mask"):
        same(getattr(features, name), arrays[name])
    if "true_msa" in arrays:
        same(features.true_msa, arrays["true_msa"])
        same(features.bert_mask, arrays["bert_mask"])
    extra_names = ("extra_msa", "extra_has_deletion", "extra_deletion_value", "extra_msa_mask")
    for name in extra_names:
        found = getattr(features, name)
        if arrays[name].shape[0] == 0:
            assert found.shape == (1, encoded.msa.shape[1])
            same(found, arrays[f"padded/{name}"][:1])
        else:
            same(found, arrays[name])


@pytest.mark.parametrize("case", CASES)
def test_clusters_equal_alphafolds(golden, case):
    alignment, arrays = golden(case)
    encoded = encode_alignment(alignment)
    centres = arrays["msa"].astype(np.uint8)
    number = len(centres)
    assignment = assign_clusters(centres, encoded.msa[number:])
    same(assignment, arrays["cluster_assignment"])
    same(cluster_profiles(centres, encoded.msa[number:], assignment), arrays["cluster_profile"])
    means = cluster_deletion_means(encoded.deletions[:number], encoded.deletions[number:], assignment)
    same(means, arrays["cluster_deletion_mean"])


@pytest.mark.parametrize("case", ["small", "small_padded"])
def test_replacement_probabilities_equal_alphafolds(golden, case):
    _, arrays = golden(case)
    same(
        replacement_probabilities(arrays["msa"], arrays["hhblits_profile"][None]), arrays["masked_msa_probs"]
    )


def test_letters_read_otherwise_in_rows_and_query():
    letters = np.frombuffer(b"ARNDCQEGHILKMFPSTWYVBZUJOX-", np.uint8)
    assert msa_codes(letters).tolist() == [*range(20), 3, 6, 4, 20, 20, 20, 21]
    assert aatype_codes(letters).tolist() == [*range(20), 20, 20, 20, 20, 20, 20, 20]
    assert letters_of(np.arange(23)) == RESIDUES + "X-#"
    with pytest.raises(ValueError, match=r"'\*'"):
        msa_codes(np.frombuffer(b"A*", np.uint8))


def plain_clusters(centres, rows):
    """Assignment and profile by loops over cells."""
    assignment, sums, sizes = [], np.zeros((*centres.shape, 23)), np.ones(len(centres))
    for index, centre in enumerate(centres):
        for column, code in enumerate(centre):
            sums[index, column, code] += 1
    for row in rows:
        equal = [
            sum(int(a == b and a not in (GAP, MASK)) for a, b in zip(row, centre, strict=True))
            for centre in centres
        ]
        best = equal.index(max(equal))
        assignment.append(best)
        sizes[best] += 1
        for column, code in enumerate(row):
            sums[best, column, code] += 1
    return assignment, sums / (1e-6 + sizes)[:, None, None]


@pytest.mark.parametrize(("centres", "rows", "columns"), [(1, 3, 1), (7, 40, 150), (5, 0, 12), (3, 2100, 2)])
def test_clusters_equal_plain_loops(centres, rows, columns):
    """Across the edges of blocks of rows and columns; few classes make ties frequent."""
    random = np.random.default_rng(5)
    codes = np.array([0, 1, 2, UNKNOWN, GAP, MASK], np.uint8)
    middle = codes[random.integers(0, 6, (centres, columns))]
    others = codes[random.integers(0, 5, (rows, columns))]
    wanted_assignment, wanted_profile = plain_clusters(middle, others)
    assignment = assign_clusters(middle, others)
    assert assignment.tolist() == wanted_assignment
    np.testing.assert_allclose(cluster_profiles(middle, others, assignment), wanted_profile, atol=1e-6)


def test_masking_draws_the_published_mixture():
    """Two columns, two known profiles: the frequencies of what replaces a cell are the probabilities."""
    profile = np.zeros((2, 22), np.float32)
    profile[0, [0, GAP]] = 0.5
    profile[1, 3] = 1
    msa = np.tile(np.array([4, GAP], np.uint8), (60_000, 1))
    masked, chosen = mask_msa(msa, profile, 0.5, np.random.default_rng(1))
    assert (masked[~chosen] == msa[~chosen]).all()
    assert abs(chosen.mean() - 0.5) < 0.01
    for column in range(2):
        new = masked[chosen[:, column], column]
        found = np.bincount(new, minlength=23) / len(new)
        wanted = replacement_probabilities(msa[:1, column], profile[column])[0]
        assert wanted.sum() == pytest.approx(1)
        np.testing.assert_allclose(found, wanted, atol=0.01)
    assert not (masked[chosen[:, 0], 0] == UNKNOWN).any()


def many_rows(number=60, columns=30):
    random = np.random.default_rng(3)
    rows = np.frombuffer(b"ARNDCQEGHILKMFPSTWYV", np.uint8)[random.integers(0, 20, (number, columns))]
    return alignment_of(*(row.tobytes().decode() for row in rows))


def test_a_sample_parts_the_rows():
    """The query stays the first centre, nothing is both centre and extra, masking spares target and true rows."""
    encoded = encode_alignment(many_rows())
    features = sample_input_features(
        encoded, max_clusters=8, max_extra=1000, random=np.random.default_rng([0, 0])
    )
    np.testing.assert_array_equal(features.true_msa[0], encoded.msa[0])
    np.testing.assert_array_equal(features.target_feat.argmax(axis=1) - 1, encoded.aatype)
    everything = np.concatenate([features.true_msa, features.extra_msa])
    assert {row.tobytes() for row in everything.astype(np.uint8)} == {row.tobytes() for row in encoded.msa}
    assert len(everything) == len(encoded.msa)
    shown = features.msa_feat[..., :23].argmax(axis=-1)
    assert (shown == features.true_msa)[features.bert_mask == 0].all()
    assert (shown == MASK).any()
    assert 0.05 < features.bert_mask.mean() < 0.3


def test_profile_is_taken_before_sampling_and_over_all_rows():
    encoded = encode_alignment(alignment_of("AR", "A-", "AX", "AR"))
    assert len(encoded.msa) == 3
    np.testing.assert_allclose(encoded.profile[1, [1, 20, 21]], 1 / 3, rtol=1e-6)
    assert column_profile(encoded.msa)[0, 0] == 1


def test_nucleotides_are_refused():
    with pytest.raises(BioattnError, match=r"^x\.a3m: .*DNA"):
        encode_alignment(alignment_of("ACGTACGTACGTACGT", "ACGTACG-ACNTACGT"), source="x.a3m")


def test_an_incomplete_query():
    encoded = encode_alignment(alignment_of("MK-aGYIA", "MKTGYIA"))
    assert encoded.aatype.tolist() == [12, 11, UNKNOWN, 7, 18, 9, 0]
    assert encoded.msa[0, 2] == GAP
