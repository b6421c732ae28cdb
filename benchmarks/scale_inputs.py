"""Random inputs of any size for `scale.py`, and a single Evoformer block to measure.

What is made holds no signal: time and memory do not depend on it.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
from bioattn.models.evoformer.folder import write_evoformer_model
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.projection import use_precision
from bioattn.models.evoformer.stacks import EvoformerBlock
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import write_promoter_model
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.promoter_fasta import Promoter, write_promoters
from bioattn.promoters.treatments import TreatmentTable

BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
RESIDUES = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", dtype=np.uint8)
CHROMOSOMES = 20


def genome(folder: Path, *, genes: int, megabases: int) -> None:
    """A genome and the annotation of genes spread evenly over it."""
    random = np.random.default_rng(0)
    length = megabases * 1_000_000 // CHROMOSOMES
    names = [f"chr{number + 1}" for number in range(CHROMOSOMES)]
    write_fasta(
        folder / "genome.fa",
        (FastaRecord(name, "", BASES[random.integers(0, 4, length)].tobytes().decode()) for name in names),
    )
    each = genes // CHROMOSOMES
    step = (length - 4000) // each
    with (folder / "annotation.gff3").open("w") as file:
        file.write("##gff-version 3\n")
        for name in names:
            for number in range(each):
                start = 2000 + number * step
                gene = f"ID=gene-{name}.{number};locus_tag={name}.{number}"
                strand = "+-"[number % 2]
                file.write(
                    f"{name}\t.\tgene\t{start}\t{start + min(step, 900) - 1}\t.\t{strand}\t.\t{gene}\n"
                )


def promoters(folder: Path, *, genes: int, bases: int) -> None:
    """Promoter FASTA on twenty chromosomes."""
    random = np.random.default_rng(0)
    write_promoters(
        folder / "promoters.fa",
        (
            Promoter(
                f"gene{number:06d}",
                f"chr{number % CHROMOSOMES + 1}",
                number * bases,
                (number + 1) * bases,
                "+-"[number % 2],
                0,
                random.integers(0, 4, bases, dtype=np.uint8),
            )
            for number in range(genes)
        ),
    )


def responses(folder: Path, *, genes: int, treatments: int) -> None:
    """A wide table."""
    random = np.random.default_rng(1)
    with (folder / "responses.tsv").open("w") as file:
        file.write("\t".join(["gene", *(f"treatment{number}" for number in range(treatments))]) + "\n")
        for number in range(genes):
            values = "\t".join(f"{value:.3f}" for value in random.standard_normal(treatments))
            file.write(f"gene{number:06d}\t{values}\n")


def promoter_model(folder: Path, *, treatments: int, bases: int) -> None:
    """A model of default shape with the weights training begins from."""
    names = [f"treatment{number}" for number in range(treatments)]
    table = TreatmentTable(pd.DataFrame(index=pd.Index(names, dtype=object)))
    config = PromoterModelConfig(length=bases)
    vocabulary = TreatmentVocabulary.learn(table, encoding=config.treatment_encoder, unconditional=True)
    torch.manual_seed(0)
    model = PromoterModel(config, vocabulary)
    (folder / "model").mkdir()
    write_promoter_model(folder / "model", model, vocabulary, table, task="regression", reference=None)


def evoformer_model(folder: Path, *, blocks: int, extra_blocks: int) -> None:
    """A model of AlphaFold's widths with random weights, none of them 0."""
    torch.manual_seed(0)
    model = EvoformerModel(EvoformerConfig(num_blocks=blocks, num_extra_msa_blocks=extra_blocks))
    _fill(model)
    (folder / "model").mkdir()
    write_evoformer_model(folder / "model", model, InputSettings())


def alignment(folder: Path, *, rows: int, residues: int) -> None:
    """Rows that share 60 % of their residues with the first."""
    random = np.random.default_rng(0)
    query = RESIDUES[random.integers(0, 20, residues)]
    with (folder / "alignment.a3m").open("w") as file:
        for number in range(rows):
            row = query.copy()
            changed = random.random(residues) < (0.4 if number else 0)
            row[changed] = RESIDUES[random.integers(0, 20, changed.sum())]
            file.write(f">row{number}\n{row.tobytes().decode()}\n")


def run_block(rows: int, residues: int, *, extra: bool, bf16: bool) -> float:
    """CPU seconds of a block of AlphaFold's widths, of either stack, once it is warm."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = EvoformerConfig()
    layer = EvoformerBlock(config, 0, extra_msa=extra)
    _fill(layer)
    layer.requires_grad_(False)
    if bf16:
        use_precision(layer, torch.bfloat16)
    channels = config.extra_msa_channels if extra else config.msa_channels
    seconds = 0.0
    with torch.no_grad():
        for height, width in ((16, 32), (rows, residues)):
            inputs = torch.randn(height, width, channels), torch.randn(width, width, config.pair_channels)
            masks = torch.ones(height, width), torch.ones(width, width)
            began = time.process_time()
            layer(*inputs, *masks)
            seconds = time.process_time() - began
    return seconds


def _fill(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.5 * parameter.shape[1] ** -0.5)


MAKERS = {
    "genome": genome,
    "promoters": promoters,
    "responses": responses,
    "promoter-model": promoter_model,
    "evoformer-model": evoformer_model,
    "alignment": alignment,
}
