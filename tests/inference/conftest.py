"""Small untrained models in folders, and promoters to run those of promoters on."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.models.evoformer.config import InputSettings
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.running import run_promoters
from bioattn.promoters.promoter_fasta import Promoter, write_promoters
from bioattn.promoters.treatments import TreatmentTable
from tests.inference import evoformer_runs
from tests.making import untrained_model

LENGTH = 120
TABLE = TreatmentTable(
    pd.DataFrame(
        {"agent": ["heat", "H2O2", "heat", "DTT"], "minutes": [5.0, 20.0, 40.0, 10.0]},
        index=pd.Index(["heat-5", "h2o2-20", "heat-40", "dtt-10"], dtype=object, name="treatment"),
    ).astype({"agent": object})
)


def write_model(parent, name="model", task="regression", seed=0, **settings):
    """Write an untrained model; keyword arguments go into its config. Of `cross`, one without contributions."""
    cross = settings.get("conditioning", Conditioning.CROSS) is Conditioning.CROSS
    config = PromoterModelConfig(
        length=LENGTH,
        **{
            "conditioning": Conditioning.CROSS,
            "treatment_encoder": TreatmentEncoding.ID,
            "channels": 8,
            "kernel": 7,
            "treatment_channels": 8,
            "num_heads": 3,
            "head_channels": 4,
            "hidden_channels": 8,
            "hops": 2 if cross else 1,
            "reader": "hidden" if cross and "readout" not in settings else "linear",
            **settings,
        },
    )
    made = untrained_model(config, TABLE, task=task, seed=seed)
    folder = parent / name
    folder.mkdir()
    made.write(folder)
    return folder


@pytest.fixture
def make_model(tmp_path):
    """`write_model` in the folder of the test."""
    return partial(write_model, tmp_path)


@pytest.fixture
def load():
    return lambda folder: load_promoter_model(folder, torch.device("cpu"))


def write_promoter_file(folder, number=23, name="promoters.fa", downstream=lambda i: None):
    """Write a promoter FASTA: every third one short, some with flanks, every fifth without a location."""
    random = np.random.default_rng(1)
    records = []
    for i in range(number):
        window = LENGTH - 10 * (i % 3 == 2)
        flank = 4 * (i % 2)
        located = i % 5 != 4
        records.append(
            Promoter(
                f"G{i:03d}",
                "chrI" if located else "",
                500 * i if located else -1,
                500 * i + window if located else -1,
                "+-"[i % 2] if located else ".",
                flank if located else 0,
                random.integers(0, 4, window + 2 * flank * located, dtype=np.uint8),
                downstream(i),
            )
        )
    path = folder / name
    write_promoters(path, records)
    return path


@pytest.fixture
def make_promoters(tmp_path):
    """`write_promoter_file` in the folder of the test."""
    return partial(write_promoter_file, tmp_path)


@pytest.fixture
def export(make_model, make_promoters, load, tmp_path):
    """`run_promoters` on 23 promoters, with attention to a file of the name given."""
    loaded, promoters = load(make_model()), make_promoters()

    def run(name="attention.h5", model=loaded, file=promoters, **options):
        attention = tmp_path / name
        given = {"treatments": TABLE, "attention": attention, "batch_size": 4, **options}
        run_promoters(model, file, **given)
        return attention

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained MSA/pair model with everything."""
    return evoformer_runs.make_model(tmp_path_factory.mktemp("models") / "whole", aligned_error_head=True)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory):
    """One without structure module and recycling."""
    return evoformer_runs.make_model(
        tmp_path_factory.mktemp("models") / "trunk",
        InputSettings(max_msa_clusters=4, max_extra_msa=5, num_recycles=0, num_samples=2),
        num_blocks=1,
        structure_module=None,
        recycling=False,
        experimentally_resolved_head=False,
    )
