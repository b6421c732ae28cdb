"""Effects of in-silico mutagenesis by bin: the reference for attention maps.

Shape suffixes: B promoters, T treatments, L bases, A the four bases, P bins.
"""

import numpy as np

from bioattn.inference.runner import Codes, Floats, Predictor
from bioattn.interpret.attribution.mutagenesis import Mutagenesis
from bioattn.interpret.attribution.values import contributions
from bioattn.interpret.maps.upsampling import bin_sums
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest


def mutation_effects(
    predictor: Predictor,
    codes_BL: Codes,
    edges: tuple[int, ...],
    *,
    progress: Progress,
    stop: StopRequest,
) -> Floats:
    """Effects (B, T, P): absolute change of the prediction, mean over the other bases, sum over the bin's bases.

    Attention has no sign, so both directions count alike.
    """
    mutagenesis = Mutagenesis(predictor)
    effects = []
    progress.begin("in-silico mutagenesis", len(codes_BL))
    try:
        for codes_1L in codes_BL[:, None]:
            stop.check()
            values_1TLA = mutagenesis(codes_1L).values_BTLA
            present_1TL = contributions(values_1TLA, codes_1L)
            moved_1TL = np.abs(values_1TLA - present_1TL[..., None]).sum(-1) / 3
            moved_1TL = np.where(codes_1L[:, None] < 4, moved_1TL, 0.0)
            effects.append(bin_sums(moved_1TL, edges))
            progress.advance()
    finally:
        progress.end()
    return np.concatenate(effects)
