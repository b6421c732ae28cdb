"""Thresholds of the checks. They were set on planted truth, seeds 0-4 of `benchmarks/check.py`, before any other
seed was looked at; docs/checks.md tells how near good and bad models come to each."""

SKILL = 0.1
"""Least skill, with an interval above 0: a model below predicts nothing, and its maps explain nothing."""
SAVED = 0.005
"""Least share that a model saves of the bits of word frequencies (tokens) or of the error of the mean (molecules),
with an interval above 0."""
USED = 0.03
"""Least share of the skill that uniform attention, retrained, must lack, with an interval above 0."""
SHARED = 0.03
"""The same for one query shared by all treatments."""
BETTER_SEED = 0.1
"""Share of the skill by which another seed may be better without a caveat."""
POINTED = 0.15
"""Least share of a prediction's deviation that deleting the top tenth of bins takes away beyond a random tenth."""
FOUND = 0.7
"""Least effect of deleting the map's top tenth, as a share of the effect of the tenth chosen by in-silico
mutagenesis (both beyond a random tenth)."""
SWAPPED = 0.1
"""Least share of the skill lost with other treatments' weights; or 1 − r of predictions with both maps."""
SHAPED = 0.03
"""Least share of the skill, with an interval above 0, lost with other treatments' shapes, with mean shapes, or
with other treatments' contributions: with these a treatment predicts what another does, and how far apart
treatments are is biology. Whether maps tell them apart is judged beside mutagenesis, `OWN_OF_MUTAGENESIS`."""
IDLE = 0.05
"""A bin is idle whose value has less variance over promoters than this share of the mean over the head's bins."""
OWN_MAP = 0.05
"""Least share of a prediction's deviation that the own map finds beyond another promoter's map."""
TOLD_APART = 0.02
"""The same share by mutagenesis of the model, a treatment's beyond another's, below which nothing is judged: what
treatments share, no map can tell apart."""
OWN_OF_MUTAGENESIS = 0.5
"""Least share of that difference that the map finds."""
RANDOMISED = 0.5
"""Largest Spearman correlation with the maps of random weights."""
STABLE = 0.5
"""Least Spearman correlation with the maps of another seed."""
