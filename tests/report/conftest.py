"""A small promoter model with all that can be reported of it; names are as hostile as the formats allow."""

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.checks.measures import Code, Measure, Verdict
from bioattn.checks.record import Curve, HeadSpread
from bioattn.formats.meme import Motif, write_meme
from bioattn.io.files import sha256_of
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, Reader, TreatmentEncoding
from bioattn.promoters.dataset import write_dataset
from bioattn.promoters.promoter_fasta import Promoter, write_promoters
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.training_record import Comparison
from bioattn.store.windows import promoter_samples
from tests.making import bioattn, promoter_dataset, untrained_model, write_check
from tests.result_files import write_attribution

LENGTH = 80
NUM_GENES = 14
HOSTILE_GENE = "</script><script>window.harmed=1</script>"
HOSTILE_TREATMENT = '"><img src=x onerror=window.harmed=2>'
HOSTILE_MOTIF = "<svg/onload=window.harmed=3>"
GENES = [HOSTILE_GENE, *(f"gene{number:02d}" for number in range(1, NUM_GENES))]
TREATMENTS = [HOSTILE_TREATMENT, "heat", "cold"]
SPLIT = np.array([2, 2, 2, 1, 1, *[0] * (NUM_GENES - 5)], np.uint8)


class PromoterRun(NamedTuple):
    """Everything that belongs to one model."""

    folder: Path
    model: Path
    dataset: Path
    promoters: Path
    attention: Path
    attribution: Path
    contributions: np.ndarray
    """(5, treatments, positions): of the first five genes."""
    check: Path
    motif_export: Path
    motifs: Path
    annotation: Path
    codes: np.ndarray

    @property
    def everything(self):
        """All inputs, and the options that name the others."""
        results = (self.attention, self.attribution, self.check, self.motif_export)
        paths = (self.model, self.dataset, *results, self.promoters)
        return [*map(str, paths), "--annotation", str(self.annotation), "--motifs", str(self.motifs)]


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("report")
    random = np.random.default_rng(4)
    codes = random.integers(0, 4, size=(NUM_GENES, LENGTH)).astype(np.uint8)
    starts = 1000 * np.arange(1, NUM_GENES + 1, dtype=np.int64)
    strands = ["+" if number % 2 == 0 else "-" for number in range(NUM_GENES)]
    promoters = folder / "promoters.fa"
    rows = zip(GENES, starts.tolist(), strands, codes, strict=True)
    write_promoters(promoters, (Promoter(g, "chr<1>", s, s + LENGTH, d, 0, row) for g, s, d, row in rows))
    table = TreatmentTable(pd.DataFrame(index=pd.Index(TREATMENTS, dtype=object, name="treatment")))
    targets = random.normal(size=(NUM_GENES, len(TREATMENTS))).astype(np.float32)
    dataset = folder / "x.dataset.h5"
    places = {"gene_ids": GENES, "chrom": ["chr<1>"] * NUM_GENES, "start": starts, "end": starts + LENGTH}
    metadata = {"split": {"genes": "chromosome", "chromosomes": {"test": ["chr<1>"]}}}
    made = promoter_dataset(codes, targets, table, SPLIT, **places, strand=strands, metadata=metadata)
    write_dataset(dataset, made)
    model = write_model(folder / "model", table, sha256_of(dataset))
    attention = folder / "attention.h5"
    assert bioattn("export", "attention", model, promoters, "-o", attention, "-q") == 0
    digest = sha256_of(model / "model.safetensors")
    values = random.normal(size=(5, len(TREATMENTS), LENGTH, 4)).astype(np.float32)
    attribution = folder / "explain.h5"
    samples = promoter_samples(GENES[:5], ["chr<1>"] * 5, starts[:5], starts[:5] + LENGTH, strands[:5])
    known = {"model_sha256": digest, "input_sha256": sha256_of(promoters)}
    write_attribution(attribution, samples, codes[:5], values, targets[:5], TREATMENTS, **known)
    contributions = np.array(
        [
            [[values[g, t, p, codes[g, p]] for p in range(LENGTH)] for t in range(len(TREATMENTS))]
            for g in range(5)
        ]
    )
    return PromoterRun(
        folder=folder,
        model=model,
        dataset=dataset,
        promoters=promoters,
        attention=attention,
        attribution=attribution,
        contributions=contributions,
        check=write_check(folder / "check.json", **check_of(digest)),
        motif_export=write_motif_export(folder / "motifs"),
        motifs=write_motif_database(folder / "database.meme", codes),
        annotation=write_annotation(folder / "genes.gff3"),
        codes=codes,
    )


def write_model(folder, table, dataset_sha256):
    """Untrained, with the record of a training that never was."""
    config = PromoterModelConfig(
        length=LENGTH,
        conditioning=Conditioning.CROSS,
        reader=Reader.HIDDEN,
        treatment_encoder=TreatmentEncoding.ID,
        channels=8,
        kernel=7,
        treatment_channels=8,
        num_heads=2,
        head_channels=4,
        hidden_channels=8,
    )
    folder.mkdir()
    made = untrained_model(config, table)
    # Weights of a size that gives maps with peaks.
    for parameter in made.model.parameters():
        parameter.data.mul_(3)
    made.write(folder)
    rows = [("this model", 0.41, 0.2), ("6-mer ridge", 0.52, 0.1), ("lucky on test genes", 0.6, 0.5)]
    comparison = Comparison("test genes", "median r", 0.41, "6-mer ridge", 0.52, (-0.3, -0.01))
    record = {
        "dataset": {"file": "x.dataset.h5", "sha256": dataset_sha256},
        "networks": [{"training": {"seed": 0, "epochs": 3}}],
        "best_epoch": 2,
        "comparison": comparison.to_json(),
        "evaluation": {
            "rows": [
                {"name": name, "cells": "test genes", "pearson": r, "specific_pearson": specific, "mse": 1.0}
                for name, r, specific in rows
            ],
            "per_treatment": {
                name: {"pearson": 0.1 * number} for number, name in enumerate(TREATMENTS, start=1)
            },
            "interval": None,
            "check": "",
            "verdict": "",
        },
    }
    (folder / "training.json").write_text(json.dumps(record))
    (folder / "history.csv").write_text(
        "epoch,learning_rate,training_loss,validation_loss,validation_pearson\n"
        "1,0.1,1.0,1.1,0.1\n2,0.1,0.8,0.9,0.3\n3,0.1,0.7,1.0,\n"
    )
    return folder


def check_of(model_sha256):
    """A check whose verdict is bad, with a measure that failed and one without a value."""
    judged = {"interval": (1.1, 1.9), "threshold": 2.0, "passed": False}
    return {
        "model_sha256": model_sha256,
        "verdict": Verdict(Code.NOT_USED, "The model hardly uses <b>where</b> it looks.", [], []),
        "settings": {"promoters": NUM_GENES, "treatments": len(TREATMENTS)},
        "measures": [
            Measure(name="deletion", label="deletion <script>", value=1.5, sentence="Too little.", **judged),
            Measure(name="entropy", label="entropy", value=math.nan, sentence=""),
        ],
        "curves": {"deletion": Curve([0, 0.5, 1], top=[0, 1, 1.2], random=[0, 0.2, 1.2])},
        "heads": [HeadSpread(site="promoter.cross.0", head=0, entropy=0.5, top_weight=0.4, sink=0)],
        "skipped": {"retraining": "not asked for"},
    }


def write_motif_database(path, codes):
    """One motif: bases 20 to 30 of the first gene, so that it hits there."""
    probabilities = np.full((10, 4), 0.01)
    probabilities[np.arange(10), codes[0, 20:30]] = 0.97
    write_meme(path, [Motif(name=HOSTILE_MOTIF, probabilities=probabilities, sites=50)])
    return path


def write_motif_export(folder):
    folder.mkdir()
    (folder / "motifs.json").write_text('{"format": "bioattn-motifs", "generated_by": "bioattn"}')
    probabilities = np.full((6, 4), 0.1)
    probabilities[:, 2] = 0.7
    write_meme(folder / "motifs.meme", [Motif(name="attention.1", probabilities=probabilities, sites=30)])
    (folder / "motifs.tsv").write_text(
        "motif\tsource\tconsensus\tseqlets\tinformation_bits\tmatch\tmatch_name\tmatch_p_value\tmatch_q_value\n"
        f"attention.1\tattention\tGGGGGG\t30\t4.2\tMA1\t{HOSTILE_MOTIF}\t1e-6\t0.001\n"
    )
    (folder / "treatments.tsv").write_text(
        "treatment\tmotif\treference\tseqlets\tratio\tp_value\tq_value\n"
        "heat\tattention.1\tbackground\t9\t9.9\t0.001\t0.01\n"
        "heat\tattention.1\tmean\t9\t2.5\t0.001\t0.01\n"
        "cold\tattention.1\tmean\t9\t0.5\t0.9\t0.9\n"
    )
    return folder


def write_annotation(path):
    """A gene over the first window's first 30 bases, on the other strand; one in the window of gene03, on the −
    strand as it is; and gene01, which has a name and lies in the window of gene04."""
    path.write_text(
        "##gff-version 3\n"
        "chr<1>\tx\tgene\t901\t1030\t.\t-\t.\tID=other;Name=<i>other</i>\n"
        "chr<1>\tx\tgene\t4011\t4030\t.\t-\t.\tID=within\n"
        "chr<1>\tx\tgene\t5001\t5060\t.\t+\t.\tID=gene01;Name=NamedGene\n"
    )
    return path


DATA = Path(__file__).resolve().parents[2] / "data"
FAMILY = "simulated000000"
ALIGNMENT = DATA / "families" / "msa" / f"{FAMILY}.a3m"
STRUCTURE = DATA / "families" / "structure" / f"{FAMILY}.pdb"


class ProteinRun(NamedTuple):
    """A simulated family, run with the model that comes along."""

    prediction: Path
    attention: Path
    alignment: Path
    structure: Path


@pytest.fixture(scope="session")
def protein(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("protein")
    words = ["run", "evoformer", ALIGNMENT, "--model", DATA / "models/evoformer-contacts"]
    words += ["--sites", "*.msa_row", "--attention", str(folder / "attention.h5"), "-o", str(folder / "run")]
    assert bioattn(*words, "-q") == 0
    return ProteinRun(folder / "run", folder / "attention.h5", ALIGNMENT, STRUCTURE)
