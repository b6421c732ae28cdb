"""Attribution files: damage is found, what is no attribution is refused, writing is chunk by chunk the same."""

import h5py
import numpy as np
import pytest

from bioattn.errors import FormatError
from bioattn.store.attribution import open_attribution
from bioattn.store.result_validation import validate_results
from bioattn.store.windows import promoter_samples
from tests.result_files import write_attribution
from tests.store.conftest import values

GENES, LENGTH = 6, 30
VALUE = "attribution/values"


def write(path, blocks=1):
    random = np.random.default_rng(0)
    codes = random.integers(0, 5, (GENES, LENGTH), dtype=np.uint8)
    values = random.normal(0, 1, (GENES, 2, LENGTH, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    values[np.broadcast_to((codes == 4)[:, None], values.shape[:3])] = 0
    gap = random.normal(0, 0.01, (GENES, 2)).astype(np.float32)
    start = np.arange(GENES) * 100
    samples = promoter_samples(
        [f"G{i}" for i in range(GENES)], ["chrI"] * GENES, start, start + LENGTH, ["+"] * GENES
    )
    write_attribution(path, samples, codes, values, gap, ["control", "heat"], gap=gap, blocks=blocks)
    return values


def test_blocks_do_not_matter(tmp_path):
    write(tmp_path / "one.h5")
    write(tmp_path / "some.h5", blocks=3)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "some.h5").read_bytes()
    assert validate_results(tmp_path / "one.h5") == []


def set_code(file, code):
    known = np.argwhere(file["attribution/sequence"][:] < 4)[7]
    file["attribution/sequence"][tuple(known)] = code


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (values(VALUE, (2, 1, 5, 3), np.nan), "'G2': holds NaN"),
        (values(VALUE, (2, 1, 5, 3), 9), "'G2': values of a position do not sum to 0"),
        (lambda file: set_code(file, 7), "holds codes above 4"),
    ],
)
def test_what_breaks_the_contract_is_found(tmp_path, change, sentence):
    write(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        change(file)
    findings = [str(finding) for finding in validate_results(tmp_path / "x.h5")]
    assert any(sentence in finding for finding in findings), findings


def test_what_is_no_attribution_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["format"] = "bioattn-attention"
    with pytest.raises(FormatError, match="is no attribution file"), open_attribution(tmp_path / "other.h5"):
        pass
    write(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file.attrs["format_version"] = "3.0"
    with pytest.raises(FormatError, match=r"3\.0 is not"), open_attribution(tmp_path / "x.h5"):
        pass
