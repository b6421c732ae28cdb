"""`export attention` of diffusion models: where each treatment writes, and how much it changes each base.

At every step the same share of a promoter's bases is hidden (or the same noise added) in several passes, so that
each base is hidden once. Weights are means over the passes of a step, with the treatments asked for all on. The
effect of a treatment at a base is the Kullback-Leibler divergence, in nats, of the probabilities of the four bases
with the treatment on from those with it off, all other treatments unknown.

Shape suffixes: B promoters, P passes of all steps, S steps, L positions, T treatments, H heads, Q queries, K keys.
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Axis, Tile
from bioattn.choices import Noise
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.promoter_windows import Promoters, hold_promoters, refitted
from bioattn.inference.run import Work, write_attention_file
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.diffusion.model import OFF, STEP, UNKNOWN
from bioattn.models.diffusion.run import LoadedDenoiser, load_denoiser
from bioattn.models.noise import HIDDEN, evidence, signal
from bioattn.models.running import Running, RunReport
from bioattn.store.schema import (
    WEIGHTS,
    Array,
    AttentionOptions,
    Block,
    FileLayout,
    GroupLayout,
    Samples,
    site_layout,
)
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS, window_attributes
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")

PASSES = (8, 4, 2, 1)
"""Passes of each step: every 8th base is hidden, every 4th, every 2nd, all; the noise grows."""
EFFECT = "effect"
BATCH = 8
"""Promoters of a forward pass."""


class PromoterMaps:
    """A model, and what is asked of it; an `AttentionReceiver` of its passes."""

    def __init__(
        self, loaded: LoadedDenoiser, treatments: list[int], names: list[str], options: AttentionOptions
    ) -> None:
        """treatments: numbers of those asked for; names: of the sites."""
        self.loaded, self.treatments, self.names = loaded, treatments, names
        self.value_weighted = options.value_weighted
        self.receiver = BatchReceiver(options)
        config = loaded.config
        place_L = np.arange(config.length)
        pass_of_step = [(step, number) for step, count in enumerate(PASSES) for number in range(count)]
        self.hidden_PL = torch.from_numpy(
            np.stack([place_L % PASSES[step] == number for step, number in pass_of_step])
        )
        self.time_P = torch.tensor([1 / PASSES[step] for step, _ in pass_of_step])
        if config.noise is Noise.GAUSSIAN:  # at time 1 nothing of the promoter would be left
            self.time_P = torch.tensor([(step + 1) / (len(PASSES) + 1) for step, _ in pass_of_step])

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """weights: (B, P, H, Q, K), given on as (B, S, H, Q, K)."""

        def means(each: Tensor) -> Tensor:
            return torch.stack([of_step.mean(1) for of_step in each.split(PASSES, 1)], 1)

        valued = None if value_weighted is None else means(value_weighted)
        self.receiver.receive(site, means(weights), valued)

    def compute(self, batch: Promoters) -> Block:
        codes_BL = torch.from_numpy(batch.codes)
        if self.loaded.config.noise is Noise.MASKED:
            bases = torch.where(self.hidden_PL, HIDDEN, codes_BL[:, None])
        else:
            signal_P11 = signal(self.time_P)[:, None, None]
            same = codes_BL[:, None].expand(-1, len(self.time_P), -1)
            bases = torch.stack([evidence(each, signal_P11, np.random.default_rng(0)) for each in same])
        on = OFF + self.loaded.config.levels - 1
        with torch.inference_mode():
            if self.names:
                with capture(self.names, self, value_weighted=self.value_weighted):
                    self._log_probabilities(bases, dict.fromkeys(self.treatments, on))
            effects = [self._effect(bases, treatment, on) for treatment in self.treatments]
        effect_BTSL = torch.stack(effects, 1).cpu().numpy()
        return Block(batch.samples, {EFFECT: {"values": effect_BTSL}, **self.receiver.take()})

    def _effect(self, bases: Tensor, treatment: int, on: int) -> Tensor:
        """(B, S, L): of each base in the pass that hid it."""
        with_BPL4, without_BPL4 = (self._log_probabilities(bases, {treatment: level}) for level in (on, OFF))
        divergence_BPL = (with_BPL4.exp() * (with_BPL4 - without_BPL4)).sum(-1).clamp(min=0)
        hidden = divergence_BPL * self.hidden_PL.to(divergence_BPL.device)
        return torch.stack([each.sum(1) for each in hidden.split(PASSES, 1)], 1)

    def _log_probabilities(self, bases: Tensor, levels: dict[int, int]) -> Tensor:
        """(B, P, L, 4), with these levels of treatments and the others unknown."""
        device, config = self.loaded.device, self.loaded.config
        chosen = [levels.get(number, UNKNOWN) for number in range(len(config.treatments))]
        levels_BT = torch.tensor([chosen] * len(bases), device=device)
        time_BP = self.time_P.expand(len(bases), -1).to(device)
        logits: Tensor = self.loaded.model(bases.to(device), time_BP, levels_BT)
        return logits.float().log_softmax(-1)


def effects_and_weights(
    loaded: LoadedDenoiser, codes_BL: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Effects of all treatments and mean weights of their tokens over steps, sites and heads, (B, T, L) each."""
    names, treatments = list(loaded.sites), list(range(len(loaded.config.treatments)))
    maps = PromoterMaps(loaded, treatments, names, AttentionOptions())
    effects, weights = [], []
    for first in range(0, len(codes_BL), BATCH):
        codes = codes_BL[first : first + BATCH]
        samples = Samples({"id": [str(number) for number in range(len(codes))]})
        arrays = dict(maps.compute(Promoters(codes, samples)).arrays)
        effects.append(arrays.pop(EFFECT)["values"].mean(2))
        at_bases = []
        for path, of_site in arrays.items():
            token_BTQ = of_site[WEIGHTS].mean((1, 2))[..., :-1].transpose(0, 2, 1)
            width = 2 ** int(path.rsplit(".", 1)[1])  # bases of a bin at this stage
            at_bases.append(token_BTQ.repeat(width, -1)[..., : codes.shape[1]])
        weights.append(np.mean(at_bases, axis=0))
    return np.concatenate(effects).astype(np.float64), np.concatenate(weights).astype(np.float64)


def maps_work(
    loaded: LoadedDenoiser,
    inputs: Any,
    asked: Sequence[str],
    options: AttentionOptions,
    batch_size: int | None,
) -> tuple[Work, FileLayout]:
    """How weights and effects of promoters are computed.

    asked: treatments; none = all. Raises: as `hold_promoters`; BioattnError for treatments, sites or heads that
    the model lacks.
    """
    config = loaded.config
    source = hold_promoters(inputs, config.length)
    if told := refitted(source):
        LOGGER.warning(told)
    levels = loaded.wanted_levels(asked or config.treatments, ())
    treatments = [number for number, level in enumerate(levels) if level != UNKNOWN]
    names = choose_sites(loaded.sites, options.sites) if loaded.sites or options.sites != ("*",) else []
    layouts = [site_layout(loaded.sites[name], options, sizes={STEP: len(PASSES)}) for name in names]
    axes = (
        Axis("treatment", coordinates=tuple(config.treatments[number] for number in treatments)),
        Axis(STEP, size=len(PASSES)),
        Axis("position", edges=tuple(range(config.length + 1))),
    )
    values = Array("values", "float32", ("treatment", STEP, "position"), "divergence of on from off, nats")
    groups = (*layouts, GroupLayout(path=EFFECT, axes=axes, arrays=(values,)))
    maps = PromoterMaps(loaded, treatments, names, options)
    work = Work(
        source=source,
        noun="promoter",
        batch_size=batch_size or BATCH,
        compute=maps.compute,
        model=loaded.path,
    )
    layout = FileLayout(
        inputs=PROMOTERS,
        model_sha256=loaded.sha256,
        attributes=window_attributes(source.sha256, config.length, "binary", source.downstream),
        columns=PROMOTER_COLUMNS,
        groups=groups,
    )
    return work, layout


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    """Write weights and effects of the promoters of a FASTA.

    Raises: as `maps_work` and `run_work`.
    """
    settings.refuse(("targets", "window", "treatment_table", "phases"), "diffusion models")
    loaded = load_denoiser(settings.model, running.device(settings.device, settings.threads))
    asked, options = settings.treatments, settings.options()
    work, layout = maps_work(loaded, settings.sequences, asked, options, settings.batch_size)
    (effects,) = (group for group in layout.groups if group.path == EFFECT)
    treatments = list(effects.axes[0].coordinates or ())
    return write_attention_file(
        settings,
        running,
        work,
        layout,
        about="attention and effects",
        of_each=f" × {counted(len(treatments), 'treatment')}",
        smaller="choose fewer --sites, --heads or --treatment, --samples, or --reduce",
        treatments=treatments,
    )
