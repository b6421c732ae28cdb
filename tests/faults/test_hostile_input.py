"""Files made to harm: they are refused before they run code, reach for other files, or fill memory and disk.

Terminals are in `tests/cli/test_terminal.py`, pages in `tests/report/`.
"""

import itertools
import json
import os
import pickle
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.errors import FormatError
from bioattn.formats.npz import NpzArrays
from bioattn.io.files import is_file_name
from bioattn.models.evoformer.file_kinds import describe_arrays
from bioattn.models.evoformer.parameter_files import open_arrays
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.dataset import read_dataset
from bioattn.store.attribution import open_attribution
from bioattn.store.reader import open_attention
from bioattn_cli.main import main
from tests.inference.conftest import write_model
from tests.inference.evoformer_runs import make_model


class Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["checkpoint", "old checkpoint", "npz", "bare pickle"])
def test_pickles_are_never_unpickled(tmp_path, kind):
    harm, path = tmp_path / "harm", tmp_path / "x.pt"
    if kind == "npz":
        np.savez(tmp_path / "x.npz", a=np.array([Harm(harm)], dtype=object))
        path = tmp_path / "x.npz"
    elif kind == "bare pickle":
        path.write_bytes(pickle.dumps({"model": Harm(harm)}, protocol=2))
    else:
        torch.save({"model": Harm(harm)}, path, _use_new_zipfile_serialization=kind == "checkpoint")
    with pytest.raises(FormatError):
        open_arrays(path)
    assert main(["inspect", str(path)]) == 1
    assert main(["validate", str(path)]) == 1
    assert not harm.exists()


def test_a_model_folder_names_no_other_files(tmp_path):
    """/dev/zero would be read for ever, and any other path tells whether it has a certain digest."""
    for name in ("/dev/zero", "../secret", "sub/x"):
        for path in ("model.safetensors", "treatments.json"):
            (tmp_path / path).write_text("{}")
        config = {
            "format": "bioattn-model",
            "format_version": 1,
            "model_type": "promoter",
            "sha256": {name: "0"},
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(FormatError, match=r"config\.json: names .*, which is no file of a model folder"):
            load_promoter_model(tmp_path, torch.device("cpu"))


def test_links_out_of_a_model_folder_are_refused(tmp_path, capsys):
    folder = write_model(tmp_path)
    weights = folder / "model.safetensors"
    weights.rename(folder / "README.md")
    weights.symlink_to("README.md")
    (tmp_path / "link").symlink_to(folder)
    assert main(["inspect", str(tmp_path / "link")]) == 0
    (folder / "README.md").rename(tmp_path / "secret")
    weights.unlink()
    weights.symlink_to(tmp_path / "secret")
    for command in ("inspect", "validate"):
        assert main([command, str(folder)]) == 1
        said = capsys.readouterr()
        assert "is a link out of the model folder" in said.err + said.out


SIZES = {
    "promoter": ("hops", "channels", "length", "num_heads"),
    "evoformer": ("num_blocks", "msa_channels", "max_relative_position", "structure_module"),
}
LOAD = """
import resource, sys, torch
from pathlib import Path
from bioattn.errors import FormatError
from bioattn.models.family import load_runner
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
for folder in sys.argv[1:]:
    try:
        load_runner(Path(folder), torch.device("cpu"))
    except FormatError as error:
        print(error)
"""


def test_sizes_of_a_config_are_held_against_the_weights(python, tmp_path):
    """Before anything of that size is made: what a model takes is bounded by its weights file."""
    models = {"promoter": write_model(tmp_path, "promoter"), "evoformer": make_model(tmp_path / "evoformer")}
    folders = []
    for family, settings in SIZES.items():
        for setting, number in itertools.product(settings, (10_000_000, 999_998)):
            folders.append(shutil.copytree(models[family], tmp_path / f"{setting}-{number}"))
            config = json.loads((folders[-1] / "config.json").read_text())
            sizes = config["architecture"] if family == "evoformer" else config["networks"][0]
            inner = {**sizes[setting], "num_layers": number} if setting == "structure_module" else number
            sizes[setting] = inner
            (folders[-1] / "config.json").write_text(json.dumps(config))
    done = subprocess.run([python, "-c", LOAD, *folders], capture_output=True, text=True, timeout=100)
    said = done.stdout.splitlines()
    assert [line.startswith(str(folder)) for line, folder in zip(said, folders, strict=True)], done.stderr


def _opened(opener):
    def read(path):
        with opener(path):
            pass

    return read


READERS: dict[str, Callable[[Path], Any]] = {
    "bioattn-promoter-dataset": read_dataset,
    "bioattn-contact-dataset": open_contact_dataset,
    "bioattn-attention": _opened(open_attention),
    "bioattn-attribution": _opened(open_attribution),
    "bioattn-distogram": describe_arrays,
}


@pytest.mark.parametrize("kind", READERS)
def test_hdf5_that_claims_more_than_it_can_hold_is_refused(tmp_path, kind):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs["format"] = kind
        file.create_dataset("x", shape=(1 << 50, 64), dtype="f4", chunks=(1 << 10, 64))
    with pytest.raises(FormatError, match="claims an impossible shape"):
        READERS[kind](path)
    assert main(["validate", str(path)]) == 1


@pytest.mark.parametrize("claimed", [1 << 34, 1 << 60])
def test_an_npz_that_claims_more_than_it_can_hold_is_refused(tmp_path, claimed):
    """Header and directory agree on a size that the packed bytes cannot have."""
    path = tmp_path / "x.npz"
    header = str({"descr": "|u1", "fortran_order": False, "shape": (claimed,)}).encode().ljust(118) + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", start + bytes(1000))
        member = archive.infolist()[0]
        member.file_size = claimed + len(start)
    with pytest.raises(FormatError, match="more than deflate can"):
        NpzArrays(path)


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/x", "..", "", "a/b", "a\\b", "a\0b", "a\nb", "con.txt", "x" * 201]
)
def test_names_that_lead_elsewhere_are_no_file_names(name):
    assert not is_file_name(name)
    assert is_file_name("α-tubulin 1")
