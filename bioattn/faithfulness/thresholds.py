"""Where a check passes. Set on planted truth, seeds 0-4 of `benchmarks/check.py`, before any other seed was looked
at; docs/checks.md says how near good and bad models come to each."""

SKILL = 0.1
"""Least skill, with an interval above 0: below, a model says nothing about treatments, and neither do its maps."""
USED = 0.03
"""Least share of the skill that uniform attention, retrained, must lack, with an interval above 0."""
SHARED = 0.03
"""The same for one query shared by all treatments."""
BETTER_SEED = 0.1
"""Share of the skill by which another seed may be better without a word about it."""
POINTED = 0.15
"""Least share of a prediction's deviation that deleting the top tenth of bins takes away beyond a random tenth."""
FOUND = 0.7
"""Least part of what a tenth chosen by in-silico mutagenesis takes away that the map's tenth takes away too (both
beyond a random tenth)."""
SWAPPED = 0.1
"""Least share of the skill lost with other treatments' maps; or 1 − r between those predictions and the own."""
OWN_MAP = 0.05
"""Least share of a prediction's deviation that a map finds beyond that of another treatment, or promoter."""
RANDOMISED = 0.5
"""Largest Spearman correlation with the maps of random weights."""
STABLE = 0.5
"""Least Spearman correlation with the maps of another seed."""
