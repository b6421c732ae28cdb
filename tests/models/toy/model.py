"""The layers of a toy model, and how it is trained. Shape suffixes: B sequences, L bases, C channels."""

from pathlib import Path

import numpy as np
import torch
from bioattn.models.toy.family import ToyConfig, ToyTrainingConfig
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite, Axis
from bioattn.choices import AttentionScore
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import encode
from bioattn.io.settings import build
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.shard import Shard
from bioattn.training.predicted_tokens import Evaluation, Row
from bioattn.training.task import ConfiguredTask, Judgement, figures_by_part

PADDING = 5
BASES = {"lengths": "length"}
AXES = (Axis("sample"), Axis("head", size=2), Axis("query", "base", **BASES), Axis("key", "base", **BASES))
SITE = AttentionSite(name="toy.bases.0", axes=AXES, heads=(0, 1))


class ToyModel(nn.Module):
    """Codes (B, L), 0..4 = A C G T N and 5 = padding → logits (B, L) that a base has occurred before."""

    def __init__(self, config):
        super().__init__()
        self.config, self.sites = config, {SITE.name: SITE}
        self.embed = nn.Embedding(6, config.channels)
        widths = {f"{part}_channels": config.channels for part in ("query", "key", "value", "output")}
        heads = {"num_heads": 2, "head_channels": 4, "score": AttentionScore.DOT, "site": SITE}
        self.attention = MultiHeadAttention(**widths, **heads)
        self.readout = nn.Linear(config.channels, 1)

    def forward(self, codes_BL):
        bases_BLC, known_BL = self.embed(codes_BL.long()), codes_BL != PADDING
        mixed_BLC = self.attention(bases_BLC, bases_BLC, bases_BLC, mask=known_BL[:, None, None])
        return self.readout(torch.tanh(bases_BLC + mixed_BLC)).squeeze(-1)


def read_sequences(path):
    """Codes of each sequence by its id."""
    return {record.name: encode(record.sequence) for record in read_fasta(Path(path))}


def seen_before(codes_L):
    """(1, L) 1 where the same base stands further left."""
    return torch.tensor([[float(code in codes_L[:place]) for place, code in enumerate(codes_L)]])


class ToyTask(ConfiguredTask):
    """One training run: one sequence at a time, so that processes sum the same losses as one process."""

    family, training_kind, metric = "toy", ToyTrainingConfig, "accuracy"

    def __init__(self, settings, device):
        super().__init__(settings, device)
        self.config = build(ToyConfig, settings.model, settings.source("model"))
        self.decided_by(sequences=settings.sequences)

    def prepare(self, progress):
        self.sequences = list(read_sequences(self.settings.sequences).values())
        self.make(ToyModel)
        self.summary = f"a toy on {len(self.sequences)} sequences"

    def parts(self, step, shard):
        random = np.random.default_rng([self.training.seed, step.number])
        chosen = random.integers(len(self.sequences), size=self.training.batch_size)
        for number in chosen[shard.slice(len(chosen))]:
            codes_L = self.sequences[number]
            logits_1L = self.model(torch.from_numpy(codes_L)[None].to(self.device)).cpu()
            loss = binary_cross_entropy_with_logits(logits_1L, seen_before(codes_L)) / len(chosen)
            yield loss

    def validate(self, model, shard):
        def counts(codes_L):
            called_1L = model(torch.from_numpy(codes_L)[None].to(self.device)).cpu() > 0
            return torch.tensor([(called_1L == (seen_before(codes_L) > 0)).sum(), len(codes_L)])

        return figures_by_part(self.sequences, shard, 2, counts)

    def judge(self, values):
        right, bases = values.sum(0).tolist()
        return Judgement(right / bases, {"accuracy": right / bases})

    def evaluate(self, progress):
        with torch.no_grad():
            figures = self.judge(self.validate(self.model, Shard(1, 1))).figures
        columns = {"accuracy": ("accuracy", 3)}
        return Evaluation([Row("training", MODEL_ROW, figures)], "bases", columns, smaller_is_better=False)

    def describe(self):
        return "Toy model", f"It was trained on {len(self.sequences)} sequences."
