"""A dataset of small simulated families."""

import pytest
import torch

from bioattn_cli.main import main


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in one order: the same bytes whatever else ran before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def contact_dataset(tmp_path_factory):
    """Six families of 30 to 36 columns, the last in the test split, the one before in the validation split."""
    folder = tmp_path_factory.mktemp("contacts")
    simulated = folder / "simulated"
    options = ["--families", "6", "--depth", "100", "--strength", "1"]
    lengths = ["--length", "30:36"]
    assert main(["simulate", "msa", "-o", str(simulated), *options, *lengths, "-q"]) == 0
    table = simulated / "PAIRS.tsv"
    header, *rows = table.read_text().splitlines()
    sides = ["train"] * 4 + ["validation", "test"]
    lines = [f"{header}\tsplit", *(f"{row}\t{side}" for row, side in zip(rows, sides, strict=True))]
    table.write_text("\n".join(lines) + "\n")
    path = folder / "X.dataset.h5"
    assert main(["prepare", "contacts", str(table), "-o", str(path), "-q"]) == 0
    return path
