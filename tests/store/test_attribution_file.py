"""Attribution files: damage is found, what is no attribution is refused, writing is chunk by chunk the same."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.store.attribution_reader import open_attribution
from bioattn.store.attribution_schema import AttributionLayout
from bioattn.store.attribution_validation import validate_attribution
from bioattn.store.attribution_writer import AttributionBlock, attribution_writer
from bioattn.store.choices import Method
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.sample_writer import ResultHeader
from bioattn.store.schema import DIGEST, Digest, Samples

GENES, LENGTH = 6, 30
LAYOUT = AttributionLayout(
    method=Method.INTEGRATED_GRADIENTS, settings="steps=5", num_treatments=2, window_length=LENGTH
)


def write(path: Path, at_once: int = GENES) -> np.ndarray:
    random = np.random.default_rng(0)
    codes = random.integers(0, 5, (GENES, LENGTH), dtype=np.uint8)
    values = random.normal(0, 1, (GENES, 2, LENGTH, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    values[np.broadcast_to((codes == 4)[:, None], values.shape[:3])] = 0
    gap = random.normal(0, 0.01, (GENES, 2)).astype(np.float32)
    header = ResultHeader(model_sha256="0", input_sha256="0", window_length=LENGTH, task="regression")
    with attribution_writer(path, header, LAYOUT, ["control", "heat"], GENES) as writer:
        for first in range(0, GENES, at_once):
            rows = slice(first, first + at_once)
            ids = [f"G{i}" for i in range(GENES)][rows]
            start = np.arange(GENES)[rows] * 100
            places = Samples(ids, ["chrI"] * len(ids), start, start + LENGTH, ["+"] * len(ids))
            writer.append(AttributionBlock(places, codes[rows], values[rows], gap[rows], gap[rows]))
    return values


def test_blocks_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path / "one.h5")
    write(tmp_path / "some.h5", at_once=2)
    with open_attribution(tmp_path / "one.h5") as one, open_attribution(tmp_path / "some.h5") as some:
        assert one.content_sha256 == some.content_sha256
    assert validate_attribution(tmp_path / "one.h5") == []


def spoil(file: h5py.File, change: Callable[[h5py.File], None]) -> None:
    """Change the file and make its digests those of the change."""
    change(file)
    for name in ("values", "sequence", "completeness_gap"):
        dataset = file[f"attribution/{name}"]
        digest = Digest()
        digest.add(dataset[:])
        dataset.attrs[DIGEST] = digest.hexdigest()
    file.attrs[CONTENT_DIGEST] = content_digest(file)


def set_value(file: h5py.File, number: float) -> None:
    file["attribution/values"][2, 1, 5, 3] = number


def set_code(file: h5py.File, code: int) -> None:
    known = np.argwhere(file["attribution/sequence"][:] < 4)[7]
    file["attribution/sequence"][tuple(known)] = code


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda file: set_value(file, np.nan), "gene 'G2': holds NaN"),
        (lambda file: set_value(file, 9), "gene 'G2': values of a position do not sum to 0"),
        (lambda file: set_code(file, 4), "has values where the sequence is N"),
        (lambda file: set_code(file, 7), "holds codes above 4"),
        (lambda file: file.attrs.__setitem__("method", "magic"), "'method' is 'magic'"),
        (lambda file: file.__delitem__("attribution/base"), "the dimension scale is missing"),
    ],
)
def test_what_breaks_the_contract_is_found(
    tmp_path: Path, change: Callable[[h5py.File], None], sentence: str
) -> None:
    write(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        spoil(file, change)
    findings = [str(finding) for finding in validate_attribution(tmp_path / "x.h5")]
    assert any(sentence in finding for finding in findings), findings


def test_a_changed_value_is_found_by_its_digest(tmp_path: Path) -> None:
    write(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file["attribution/completeness_gap"][1, 0] += 1
    assert "not those that were written" in str(validate_attribution(tmp_path / "x.h5")[0])


def test_what_is_no_attribution_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["format"] = "bioattn-attention"
    with pytest.raises(FormatError, match="is no attribution file"), open_attribution(tmp_path / "other.h5"):
        pass
    write(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file.attrs["format_version"] = "2.0"
    with pytest.raises(FormatError, match=r"2\.0 is newer"), open_attribution(tmp_path / "x.h5"):
        pass


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "x.h5")
    with open_attribution(tmp_path / "x.h5") as file:
        with pytest.raises(BioattnError, match="gene 'G9' is not in the file"):
            file.values(gene="G9")
        with pytest.raises(BioattnError, match="treatment 'cold' is not in the file"):
            file.contributions(treatment="cold")
        assert file.contributions(gene="G1", treatment=["heat"]).shape == (1, LENGTH)
