"""Settings in which attention over the alignment might be needed: learned against uniform, as Markdown.

    python benchmarks/attention_tries.py all.dataset.h5 -o WORK [--tries NAME…] [--steps N]

all.dataset.h5 is that of `benchmarks/contacts.py`. Every model is trained on simulated families alone, the two of
a try with the same first weights and samples, and judged on simulated families that were held out and on the real
ones. Every figure is kept in WORK.
"""

import argparse
import json
import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contacts import bootstrap_interval
from torch import Tensor, nn

from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.models.evoformer.attention import TiedRowAttention
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.sites import alignment_site
from bioattn.models.evoformer.stacks import EvoformerBlock
from bioattn.models.evoformer.training.config import SMALL_MODEL, EvoformerTrainingConfig
from bioattn.models.evoformer.training.evaluation import coupling_scores, score_family
from bioattn.models.evoformer.training.losses import sample_losses
from bioattn.models.evoformer.training.samples import (
    SimulatedFamilies,
    TrainingFamily,
    TrainingSamples,
    simulated_protein,
)

NARROW = SMALL_MODEL | {
    "pair_channels": 32,
    "outer_product_channels": 8,
    "triangle_multiplication_channels": 16,
    "num_blocks": 1,
}
TRAINING_FAMILIES, HELD_OUT_FAMILIES, HELD_OUT_SEED = 300, 24, 1000
TRAINING = {"crop": 48, "max_msa_clusters": 16, "max_extra_msa": 192, "simulated_families": TRAINING_FAMILIES}
INPUTS = InputSettings(
    max_msa_clusters=16,
    max_extra_msa=512,
    min_extra_share=0.5,
    weighted_rows=True,
    max_gap_column=0.5,
    num_recycles=0,
)
TIED_HEADS = 16


class TiedRows(nn.Module):
    """Tied row attention in the place of AlphaFold's: its maps do not go to the pairs."""

    def __init__(self, block: EvoformerBlock, config: EvoformerConfig) -> None:
        super().__init__()
        (channels,) = block.msa_transition.normalise.normalized_shape
        site = alignment_site("evoformer", 0, "msa_row", TIED_HEADS, tied=True)
        self.attention = TiedRowAttention(
            channels,
            config.pair_channels,
            site,
            channels // config.msa_heads,
            uniform=config.uniform_msa_attention,
        )

    def forward(self, msa_SRC: Tensor, pair_RRC: Tensor, mask_SR: Tensor) -> Tensor:
        """msa + update."""
        updated_SRC: Tensor = self.attention(msa_SRC, self.attention.maps(msa_SRC, pair_RRC, mask_SR))
        return updated_SRC


class NoUpdate(nn.Module):
    def forward(self, pair_RRC: Tensor, _msa_SRC: Tensor, _mask_SR: Tensor) -> Tensor:
        """The pairs as they are."""
        return pair_RRC


def blocks_of(model: EvoformerModel) -> list[EvoformerBlock]:
    extra = [] if model.extra_msa_stack is None else list(model.extra_msa_stack.blocks)
    return [*extra, *model.evoformer.blocks]


def tie_rows(model: EvoformerModel) -> None:
    """Tied row attention in every block, beside the outer product."""
    for block in blocks_of(model):
        block.msa_row_attention = TiedRows(block, model.config)


def keep_last_product(model: EvoformerModel) -> None:
    """No outer product but that of the last block: rows have been attended over before."""
    for block in blocks_of(model)[:-1]:
        block.outer_product_mean = NoUpdate()


@dataclass(frozen=True, kw_only=True)
class Try:
    """A setting to be tried; the rest of it is `NARROW` and `TRAINING`."""

    told: str
    shape: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=dict)
    change: Callable[[EvoformerModel], None] = lambda model: None


TRIES = {
    "default": Try(told="nothing: 1 extra-MSA and 1 Evoformer block, centred outer product"),
    "tied-maps": Try(
        told="tied rows; their maps go to the pairs in place of the outer product",
        shape={"tied_row_heads": TIED_HEADS},
    ),
    "late-product": Try(
        told="no outer product of raw rows: 3 Evoformer blocks on 64 rows, the last alone with outer product",
        shape={"num_blocks": 3, "num_extra_msa_blocks": 0},
        samples={"max_msa_clusters": 64, "max_extra_msa": 64},
        change=keep_last_product,
    ),
    "tied": Try(told="tied rows, outer product kept", change=tie_rows),
    "uncentred": Try(told="AlphaFold's outer product, not centred", shape={"centred_outer_product": False}),
}


def train(model: EvoformerModel, families: SimulatedFamilies, steps: int, settings: dict) -> None:
    """Train on simulated families with the losses of `bioattn train evoformer`."""
    config = EvoformerTrainingConfig(steps=steps, **(TRAINING | settings))
    samples = TrainingSamples([], families, config, covariance=False)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=config.weight_decay
    )
    warmup = config.warmup_fraction * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / warmup) * (0.51 + 0.49 * math.cos(math.pi * step / steps))
    )
    for step in range(steps):
        (sample,) = samples.step(step, simulated=True)
        outputs = model(sample.inputs)
        index = sample.inputs.residue_index
        losses = sample_losses(
            outputs.distogram_logits,
            outputs.masked_msa_logits,
            sample.distances_RR,
            index[:, None] - index[None, :],
            sample.true_msa_SR,
            sample.chosen_SR,
        )
        optimiser.zero_grad()
        loss = (
            config.distogram_weight * losses.distogram
            + config.contact_weight * losses.contact
            + config.masked_msa_weight * losses.masked_msa
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.gradient_clip)
        optimiser.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.process_time():.0f} CPU s", flush=True)


def figures(
    name: str, uniform: bool, steps: int, families: SimulatedFamilies, sets: dict[str, list[TrainingFamily]]
) -> dict[str, dict[str, float]]:
    """P@L of each family of each set."""
    tried = TRIES[name]
    torch.manual_seed(0)
    model = EvoformerModel(EvoformerConfig(**(NARROW | tried.shape | {"uniform_msa_attention": uniform})))
    tried.change(model)
    began = time.process_time()
    train(model, families, steps, tried.samples)
    trained = time.process_time()
    found = {
        title: {each.protein.id: score_family(model, each, INPUTS).precision_l for each in judged}
        for title, judged in sets.items()
    }
    found["seconds"] = {"training": trained - began, "scoring": time.process_time() - trained}
    return found


def cell(values: list[float], sign: str = "") -> str:
    low, high = bootstrap_interval(values)
    return f"{np.mean(values):{sign}.3f} ({low:{sign}.2f} to {high:{sign}.2f})"


def main() -> None:
    """Train what is missing, then print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset", type=Path)
    parser.add_argument("-o", "--work", type=Path, required=True)
    parser.add_argument("--tries", nargs="*", choices=TRIES, default=list(TRIES))
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.work.mkdir(exist_ok=True)
    kept = arguments.work / "simulated.pickle"
    if not kept.exists():
        made = [[simulated_protein(0, i) for i in range(TRAINING_FAMILIES)]]
        made.append([simulated_protein(HELD_OUT_SEED, i) for i in range(HELD_OUT_FAMILIES)])
        kept.write_bytes(pickle.dumps(made))
    learnt, held_out = pickle.loads(kept.read_bytes())
    families = SimulatedFamilies(0, TRAINING_FAMILIES)
    families._made = {i: TrainingFamily(protein) for i, protein in enumerate(learnt)}
    dataset = open_contact_dataset(arguments.dataset)
    real = [dataset.protein(i) for i, name in enumerate(dataset.ids) if name != "of_1UBQ"]
    sets = {
        "simulated": [TrainingFamily(each) for each in held_out],
        "real": [TrainingFamily(each) for each in real],
    }
    found = {}
    for name in arguments.tries:
        for uniform in (False, True):
            file = arguments.work / f"{name}.{'uniform' if uniform else 'learned'}.{arguments.steps}.json"
            if not file.exists():
                file.write_text(json.dumps(figures(name, uniform, arguments.steps, families, sets), indent=1))
                print(
                    file,
                    {k: np.mean(list(v.values())) for k, v in json.loads(file.read_text()).items()},
                    flush=True,
                )
            found[name, uniform] = json.loads(file.read_text())
    for title, judged in sets.items():
        couplings = [coupling_scores(each)["mean-field DCA"].precision_l for each in judged]
        print(f"\n{len(judged)} {title} families; mean-field DCA {cell(couplings)}\n")
        print(
            "| what was changed | P@L learned | uniform | learned less uniform | learned less the first row |"
        )
        print("| --- | --- | --- | --- | --- |")
        for name in arguments.tries:
            learned, uniform = (np.array(list(found[name, each][title].values())) for each in (False, True))
            default = np.array(list(found["default", False][title].values()))
            cells = [TRIES[name].told, cell(learned), cell(uniform), cell(learned - uniform, "+")]
            print("| " + " | ".join([*cells, cell(learned - default, "+")]) + " |")


if __name__ == "__main__":
    main()
