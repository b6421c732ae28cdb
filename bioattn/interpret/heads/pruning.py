"""What a model loses without some of its heads.

`greedy_pruning` silences one head after the other, the least important of those left, and notes what is lost.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bioattn.errors import BioattnError
from bioattn.inference.runner import Head, HeadFigures, HeadScorer, SilencingScorer
from bioattn.system.progress import NoProgress, Progress


class PruningStep(NamedTuple):
    """One step of `greedy_pruning`; the first has nothing removed."""

    num_heads: int
    removed: Head | None
    importance: float
    """Of the head removed, among those that were left; NaN in the first row."""
    figures: HeadFigures
    """With this head and those before it silenced."""


def heads_of(scorer: HeadScorer) -> list[Head]:
    """All heads, site by site."""
    return [(name, head) for name, site in scorer.sites.items() for head in site.heads]


def leave_one_out(scorer: SilencingScorer, progress: Progress | None = None) -> dict[Head, HeadFigures]:
    """Loss and accuracy without each head, the others as they are."""
    progress = progress or NoProgress()
    progress.begin("one head left out", len(heads_of(scorer)))
    found = {}
    for head in heads_of(scorer):
        found[head] = scorer.figures({head})
        progress.advance()
    progress.end()
    return found


def greedy_pruning(scorer: SilencingScorer, progress: Progress | None = None) -> list[PruningStep]:
    """Silence the least important head, look again at those left, and so on until each site has one."""
    progress = progress or NoProgress()
    left = {name: list(site.heads) for name, site in scorer.sites.items()}
    steps = [PruningStep(len(heads_of(scorer)), None, float("nan"), scorer.figures())]
    silenced: set[Head] = set()
    progress.begin("pruning", len(heads_of(scorer)) - len(left))
    while any(len(heads) > 1 for heads in left.values()):
        importance = {
            head: scorer.overall(values)
            for head, values in scorer.importance(silenced).items()
            if len(left[head[0]]) > 1
        }
        least = min(importance, key=lambda head: importance[head])  # the first of equals, so it repeats
        left[least[0]].remove(least[1])
        silenced.add(least)
        figures = scorer.figures(silenced)
        steps.append(PruningStep(steps[-1].num_heads - 1, least, importance[least], figures))
        progress.advance()
    progress.end()
    return steps


def heads_after_pruning(
    scorer: SilencingScorer, steps: list[PruningStep], number: int
) -> Mapping[str, list[int]]:
    """By site, the heads that are there when `number` are left.

    Raises: BioattnError when that is not one of the steps.
    """
    if number not in {step.num_heads for step in steps}:
        raise BioattnError(
            f"--prune-to {number}: the model has {steps[0].num_heads} heads at {len(scorer.sites)} sites, "
            f"and each keeps at least one; ask for {steps[-1].num_heads} to {steps[0].num_heads}"
        )
    gone = {step.removed for step in steps if step.num_heads >= number}
    return {
        name: [head for head in site.heads if (name, head) not in gone] for name, site in scorer.sites.items()
    }
