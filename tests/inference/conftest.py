"""Small untrained models in folders, and promoters to run those of promoters on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.models.evoformer.config import InputSettings
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.folder import LoadedPromoterModel, load_promoter_model, write_promoter_model
from bioattn.models.promoter.inference.run import run_promoters
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


def write_model(
    parent: Path, name: str = "model", task: str = "regression", seed: int = 0, **settings: Any
) -> Path:
    """Write an untrained model; keyword arguments go into its config."""
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
            "hops": 2 if settings.get("conditioning", Conditioning.CROSS) is Conditioning.CROSS else 1,
            **settings,
        },
    )
    made = untrained_model(config, TABLE, seed=seed)
    folder = parent / name
    folder.mkdir()
    write_promoter_model(folder, made.model, made.vocabulary, TABLE, task=task, reference=None)
    return folder


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., Path]:
    """`write_model` in the folder of the test."""
    return partial(write_model, tmp_path)


@pytest.fixture
def load() -> Callable[[Path], LoadedPromoterModel]:
    return lambda folder: load_promoter_model(folder, torch.device("cpu"))


def write_promoter_file(
    folder: Path,
    number: int = 23,
    name: str = "promoters.fa",
    downstream: Callable[[int], int | None] = lambda i: None,
) -> Path:
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
def make_promoters(tmp_path: Path) -> Callable[..., Path]:
    """`write_promoter_file` in the folder of the test."""
    return partial(write_promoter_file, tmp_path)


@pytest.fixture
def export(
    make_model: Callable[..., Path],
    make_promoters: Callable[..., Path],
    load: Callable[[Path], LoadedPromoterModel],
    tmp_path: Path,
) -> Callable[..., Path]:
    """`run_promoters` on 23 promoters in parts of eight, with attention to a file of the name given."""
    loaded, promoters = load(make_model()), make_promoters()

    def run(
        name: str = "attention.h5",
        model: LoadedPromoterModel = loaded,
        file: Path = promoters,
        **options: Any,
    ) -> Path:
        attention = tmp_path / name
        given = {"treatments": TABLE, "attention": attention, "batch_size": 4, "part_samples": 8, **options}
        run_promoters(model, file, **given)
        return attention

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained MSA/pair model with everything."""
    return evoformer_runs.make_model(tmp_path_factory.mktemp("models") / "whole", aligned_error_head=True)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One without structure module and recycling."""
    return evoformer_runs.make_model(
        tmp_path_factory.mktemp("models") / "trunk",
        InputSettings(max_msa_clusters=4, max_extra_msa=5, num_recycles=0, num_samples=2),
        structure_module=None,
        recycling=False,
        experimentally_resolved_head=False,
    )
