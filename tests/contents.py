"""What two HDF5 files hold, whatever the order in which it was written."""

import h5py
import numpy as np


def contents(path, *, without=("generated_by", "REFERENCE_LIST", "DIMENSION_LIST")):
    """Values by name of every dataset and attribute."""
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]
        for attribute, value in item.attrs.items():
            if attribute not in without:
                found[f"{name}@{attribute}"] = np.asarray(value)

    with h5py.File(path, "r") as file:
        note("", file)
        file.visititems(note)
    return found


def assert_same_content(one, other, tolerance=0.0):
    """Names, shapes, types and values agree; floats to `tolerance`."""
    first, second = contents(one), contents(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert values.shape == second[name].shape, name
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, second[name], rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            assert (values == second[name]).all(), name
