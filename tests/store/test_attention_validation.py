"""The validator: silent on good files, one finding for each thing that was broken, never a traceback."""

import h5py
import numpy as np
import pytest

from bioattn.errors import BioattnError
from bioattn.store.choices import WeightType
from bioattn.store.inspection import is_valid
from bioattn.store.reader import open_attention
from bioattn.store.result_validation import validate_results
from tests.store.conftest import attribute, delete, values

SITE = "sites/promoter.cross.0"


@pytest.mark.parametrize("dtype", list(WeightType))
def test_good_files_are_valid(write_example, dtype):
    assert validate_results(write_example(dtype=dtype).path) == []


def delete_attribute(holder, name):
    return lambda file: file[holder].attrs.__delitem__(name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (values(f"{SITE}/weights", (4, 0, 0, 0), np.nan), "gene 'géne/0004': holds NaN"),
        (values(f"{SITE}/weights", (4, 1, 0, 3), -0.1), "gene 'géne/0004': holds negative values"),
        (values(f"{SITE}/weights", (5, 1, 0, 3), 0.9), "gene 'géne/0005': a row of weights sums to"),
        (values("sites/promoter.stage.0/weights", (2, 0, 0, 0, 0), 1.5), "'géne/0002': a row of weights"),
        (values(f"{SITE}/value_weighted", (3, 0, 0, 0), np.inf), "gene 'géne/0003': holds NaN or inf"),
        (values(f"{SITE}/key_edges", 3, 500), "the edges do not increase"),
        (values(f"{SITE}/key_edges", 0, 1), "key: differs from what the file says elsewhere"),
        (values(f"{SITE}/treatment", 0, "other"), "treatment: differs from what the file says"),
        (values(f"{SITE}/sample", 0, "other"), "sample: differs from /samples/id"),
        (values("samples/id", 0, "géne/0001"), "'géne/0001' occurs more than once"),
        (values("samples/strand", 0, "x"), "gene 'géne/0000' has 'x'"),
        (values("samples/end", 0, -5000), "gene 'géne/0000' has start -40 and end -5000"),
        (values("predictions/values", (0, 0), np.nan), "holds NaN or infinities"),
        (attribute(SITE, "axis_lengths", ["", "", "rows"]), "lengths of an axis are in /samples/rows"),
        (delete_attribute(SITE, "axes"), "can't locate attribute: 'axes'"),
        (delete_attribute("/", "inputs"), "the attribute 'inputs' is missing"),
        (delete("samples"), "object 'samples' doesn't exist"),
        (delete(f"{SITE}/weights"), f"/{SITE}/weights: the dataset is missing"),
        (attribute(SITE, "reduce", "sum"), "the attribute 'reduce' is 'sum'"),
        (attribute("/", "format_version", "3.1"), "attention format 3.1 is not 2.0"),
    ],
)
def test_each_break_is_named(write_example, change, words):
    path = write_example().path
    with h5py.File(path, "a") as file:
        change(file)
    findings = validate_results(path)
    assert findings
    assert any(words in str(finding) for finding in findings), [str(finding) for finding in findings]
    assert not is_valid(findings)


@pytest.mark.parametrize("keep", [0, 3, 8, 100, 900, 0.2, 0.5, 0.9, 0.999])
def test_cut_files_are_refused_in_one_sentence(write_example, keep):
    path = write_example().path
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep > 1 or keep == 0 else keep * len(content))])
    findings = validate_results(path)
    assert len(findings) == 1
    assert "\n" not in str(findings[0])
    assert "HDF5" in findings[0].message
    with pytest.raises(BioattnError), open_attention(path):
        pass
