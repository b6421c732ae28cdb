"""A diffusion model that is ready to run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import SettingsError
from bioattn.formats.nucleotides import decode
from bioattn.inference.inputs import Inputs, names_in, python_call
from bioattn.models.attention_settings import AttentionKeywords, ExportAttention, attention_options
from bioattn.models.diffusion.family import DiffusionModelConfig, PromoterGeneration
from bioattn.models.diffusion.model import OFF, UNKNOWN, Denoiser
from bioattn.models.diffusion.sampling import AT_ONCE, Wanted, designs
from bioattn.models.model_folder import LoadedModel
from bioattn.models.noise import HIDDEN
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from bioattn.store.reader import Attention
from bioattn.store.training_record import read_training_record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedDenoiser(LoadedModel[Denoiser, DiffusionModelConfig]):
    """A diffusion model: new promoters for treatments, and where each treatment writes."""

    family: ClassVar[str] = "diffusion"

    def generate(
        self,
        number: int = 100,
        *,
        treatments: str | Sequence[str] = (),
        without: str | Sequence[str] = (),
        guidance: float = 2.0,
        steps: int = 64,
        seed: int = 0,
    ) -> list[str]:
        """Write new promoters that are to respond to `treatments` and not to those of `without`.

        Treatments that neither names are left open. guidance: how much further than the model expects designs go
        towards the treatments. steps: from noise to promoter. The same seed writes the same designs, those of
        `generate promoters`, which also keeps parts of a promoter and follows a classifier.

        Raises: BioattnError for a treatment that the model does not know.
        """
        with python_call(PromoterGeneration, number=number, guidance=guidance, steps=steps, seed=seed):
            codes_BL = self.designs(
                names_in(treatments), names_in(without), number, guidance=guidance, steps=steps, seed=seed
            )
        return [decode(row) for row in codes_BL]

    def attention(
        self,
        inputs: Inputs,
        *,
        treatments: str | Sequence[str] = (),
        batch_size: int | None = None,
        **choices: Unpack[AttentionKeywords],
    ) -> Attention:
        """Return weights of treatments at each position and step of promoters, in memory.

        inputs: those of `bioattn.inference.inputs`. treatments: names; none = all. batch_size: promoters per
        forward pass; None = 8. choices: what is kept, as `AttentionKeywords` has them: sites, heads, dtype,
        reduce, top_k, value_weighted.

        Raises: BioattnError for promoters, treatments, sites or heads that the model cannot take.
        """
        from bioattn.models.diffusion.maps import maps_work

        options = attention_options(**choices)
        with python_call(ExportAttention, batch_size=batch_size):
            work, layout = maps_work(self, inputs, names_in(treatments), options, batch_size)
            return Attention(work.collect(layout))

    @property
    def treatments(self) -> TreatmentTable:
        """Those of the training, by name alone."""
        return named_treatments(self.config.treatments)

    @property
    def treatment_names(self) -> Sequence[str]:
        return self.config.treatments

    @property
    def dataset_sha256(self) -> str:
        return str(self._record().get("dataset", {}).get("sha256", ""))

    def levels(self, dataset: PromoterDataset) -> NDArray[np.int64]:
        names = dataset.treatments.names
        targets_GT = dataset.targets[:, [names.index(each) for each in self.config.treatments]]
        cuts = self._record()["levels"]
        levels_GT = levels_of(targets_GT, np.array([cuts[each] for each in self.config.treatments]))
        highest = OFF + self.config.levels - 1
        return np.asarray((levels_GT == highest).astype(np.int64) - (levels_GT == OFF))

    def designs(
        self, on: Sequence[str], off: Sequence[str], number: int, *, guidance: float, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        wanted = Wanted(
            levels=self.wanted_levels(on, off),
            guidance=guidance,
            steps=steps,
            kept=np.full(self.config.length, HIDDEN, np.uint8),
        )
        parts = []
        for first in range(0, number, AT_ONCE):
            rng = np.random.default_rng([seed, first])
            *_, last = designs(self.model, wanted, min(AT_ONCE, number - first), rng)
            parts.append(last)
        return np.concatenate(parts)

    def map_agreement(self, codes_BL: NDArray[np.uint8]) -> float | None:
        from bioattn.models.diffusion.maps import effects_and_weights

        if not self.sites:
            return None
        both = (each - each.mean(-1, keepdims=True) for each in effects_and_weights(self, codes_BL))
        effect_BTL, weights_BTL = (each / (each.std(-1, keepdims=True) + 1e-12) for each in both)
        return float((effect_BTL * weights_BTL).mean())

    def wanted_levels(self, on: Sequence[str], off: Sequence[str]) -> tuple[int, ...]:
        """Levels of all treatments. Raises: BioattnError for one that is not known, or in both lists."""
        known = self.config.treatments
        for option, names in (("--treatment", on), ("--not", off)):
            for name in names:
                if name not in known:
                    raise not_there(option, name, self.path, "treatment", known)
        both = sorted({*on} & {*off})
        if both:
            raise SettingsError(
                f"--treatment {both[0]} and --not {both[0]} contradict each other; give one of them"
            )
        highest = OFF + self.config.levels - 1
        return tuple(highest if name in on else OFF if name in off else UNKNOWN for name in known)

    def _record(self) -> Mapping[str, Any]:
        return {} if self.path is None else read_training_record(self.path)


def levels_of(targets_GT: NDArray[Any], cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Levels of responses: 0 = unknown (NaN), 1 = off, … cuts: (T, levels - 1), above which a level begins."""
    above = (targets_GT[..., None] > cuts).sum(-1)
    return np.where(np.isnan(targets_GT), UNKNOWN, OFF + above)


def load_denoiser(folder: Path, device: torch.device) -> LoadedDenoiser:
    return LoadedDenoiser.of_folder(folder, device, DiffusionModelConfig, Denoiser)
