"""What tests of several rooms make: small models without training, and calls of the command line."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bioattn.checks.measures import Code, Verdict
from bioattn.checks.record import CheckRecord
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.treatments import TreatmentTable
from bioattn_cli.main import main


def bioattn(*words: object) -> int:
    """Run a command in this process; returns its exit code."""
    return main([str(word) for word in words])


def shaken(model: Any, spread: float = 0.3) -> Any:
    """The model, of which every parameter counts: none is at the 0 that training begins with."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += spread * torch.randn_like(parameter)
    return model.eval()


def untrained_model(
    config: PromoterModelConfig,
    table: TreatmentTable,
    *,
    task: str = "regression",
    seed: int = 0,
    spread: float = 0.0,
) -> LoadedPromoterModel:
    """A promoter model in memory. spread: standard deviation of what is added to every parameter."""
    vocabulary = TreatmentVocabulary.learn(
        table, encoding=config.treatment_encoder, unconditional=config.unconditional
    )
    torch.manual_seed(seed)
    model = PromoterModel([config], vocabulary)
    if spread:
        shaken(model, spread)
    return LoadedPromoterModel(
        model=model.eval(),
        vocabulary=vocabulary,
        treatments=table,
        task=task,  # type: ignore[arg-type]
        reference=None,
        device=torch.device("cpu"),
        sha256="0" * 64,
    )


def compact_walk(length: int, seed: int) -> Any:
    """Coordinates (length, 3) of residues 3.8 ångström apart, whose path keeps near its beginning."""
    random = np.random.default_rng(seed)
    points = np.zeros((length, 3), np.float32)
    for place in range(1, length):
        step = random.normal(size=3) - 0.15 * points[place - 1]
        points[place] = points[place - 1] + 3.8 * step / np.linalg.norm(step)
    return points


def promoter_dataset(
    codes: Any, targets: Any, treatments: TreatmentTable, gene_split: Any, **parts: Any
) -> PromoterDataset:
    """Promoters g0, g1, … 1,000 bases apart on the + strand of chr1. parts: others of `PromoterDataset`."""
    places = 1000 * np.arange(len(codes))
    known = {
        "gene_ids": [f"g{number}" for number in range(len(codes))],
        "chrom": ["chr1"] * len(codes),
        "start": places,
        "end": places + codes.shape[1] - 2 * parts.get("flank", 0),
        "strand": ["+"] * len(codes),
        "flank": 0,
        "targets": np.asarray(targets, np.float32),
        "gene_split": np.asarray(gene_split, np.uint8),
        "treatment_split": np.zeros(len(treatments.names), np.uint8),
        "task": "regression",
        "metadata": {},
    }
    return PromoterDataset(codes=codes, treatments=treatments, **(known | parts))


def write_check(path: Path, **parts: Any) -> Path:
    """Write a check of a promoter model. parts: of `CheckRecord`."""
    known = {"model_sha256": "", "input_sha256": "", "settings": {}, "measures": []}
    known["verdict"] = Verdict(Code.USED, "Used.", [], [])
    path.write_text(json.dumps(CheckRecord(**(known | parts)).to_json()))
    return path


def small_evoformer(**changes: Any) -> EvoformerConfig:
    """An MSA/pair model of one block and one extra-MSA block, of whose sizes few are alike."""
    return EvoformerConfig(
        **{
            "msa_channels": 8,
            "pair_channels": 6,
            "extra_msa_channels": 4,
            "single_channels": 5,
            "msa_heads": 2,
            "pair_heads": 3,
            "extra_msa_heads": 2,
            "outer_product_channels": 3,
            "triangle_multiplication_channels": 7,
            "num_blocks": 1,
            "num_extra_msa_blocks": 1,
            "structure_module": None,
            **changes,
        }
    )


def write_small_prediction(folder: Path, letters: str, columns: Sequence[int], **parts: Any) -> Any:
    """Write the files of a prediction of random distances in four bins; returns their (R, R, 4) probabilities.

    letters: of the target, `-` for a gap. columns: those that were seen. parts: others of `Prediction`.
    """
    from bioattn.formats.alignment import Alignment
    from bioattn.inference.alignment_inputs import InputFile
    from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
    from bioattn.models.evoformer.inputs import prepare_inputs
    from bioattn.models.evoformer.prediction import (
        Prediction,
        PreparedAlignment,
        target_numbers,
        write_prediction,
    )

    size, random = len(columns), np.random.default_rng(0)
    chances = random.random((size, size, 4), dtype=np.float32)
    chances += chances.transpose(1, 0, 2)
    chances[0, 1] = chances[1, 0] = [1, 0, 0, 0]
    chances /= chances.sum(-1, keepdims=True)
    near = chances[..., :2].sum(-1)
    alignment = Alignment.plain(["q"], letters)
    numbers = target_numbers(alignment)
    inputs = prepare_inputs(alignment, EvoformerConfig(), InputSettings(), source="q")
    subject = PreparedAlignment(
        source=InputFile("x", folder),
        sha256="i",
        model_sha256="m",
        target="q",
        letters=letters,
        numbers=[numbers[column] for column in columns],
        num_inserted=0,
        inputs=replace(inputs, columns=np.array(columns)),
        row_names=alignment.names,
    )
    prediction = Prediction(
        bin_edges=np.array([4, 8, 12], np.float32),
        distogram=chances,
        contact_probability=near,
        expected_distance=near * 10,
        **{"aligned_error": None, "ptm": None, "plddt": None, "atom37": None, **parts},
    )
    write_prediction(folder, subject, prediction, {"format": "bioattn-prediction", "id": "x"})
    return chances
