"""`bioattn explain heads`: where heads look, what they matter, the curve of pruning, a model with fewer heads.

The folder's files are defined in `docs/heads.md`: `heads.tsv`, one of `treatments.tsv`, `proteins.tsv`,
`windows.tsv` and `pairs.tsv`, `pruning.tsv` (of models that can be run without some heads) and `heads.json`.

Every head has an entropy. Its other figures are shares of attention by distance from query to key, so they are
known where both are positions of one kind (tokens, residues, bins), and the slope where they are of two.

Shape suffixes: H heads, Q queries, K keys.
"""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.tables import write_table
from bioattn.inference.passes import finite_results, require_finite
from bioattn.inference.runner import Head, HeadFigures, HeadScorer, with_ability
from bioattn.interpret.choices import ExplainHeads
from bioattn.interpret.file_kinds import HEAD_FOLDER, HEADS, PRUNING
from bioattn.io.files import check_apart, sha256_of
from bioattn.io.folders import atomic_folder
from bioattn.models.family import load_runner
from bioattn.models.running import Running, RunReport
from bioattn.store.training_record import read_training_record
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
LOCAL = 5
"""A key at most so many places from the query is near it."""
FIGURES = ("entropy", "distance", "local", "previous", "itself", "next", "first", "induction", "slope")
"""Means over queries: entropy of the weights over that of uniform ones; |key − query|; and shares of attention: on
keys at most `LOCAL` places away, on the place before the query, the query's own, the one behind it, and the first
of all; and, of a sequence given twice, on the place in the other copy that tells what is to be predicted. `slope`
of attention to another sequence: of the mean attended place on the query's (least squares), each from 0 to 1."""
_OFFSETS = {"previous": -1, "itself": 0, "next": 1}
INDUCTION, MOST, UNIFORM = 0.3, 0.5, 0.97
"""Least induction, least share of attention and least entropy for a name."""
_Sums = dict[str, dict[str, Tensor]]
"""By site and figure: sums over queries, (H,); under `queries` how many these were."""


def _add(sums: _Sums, site: AttentionSite, means: dict[str, Tensor], queries: float) -> None:
    """Add means over `queries` queries, (H,) or one for all heads."""
    of_site = sums.setdefault(site.name, {})
    for name, mean in (means | {"queries": torch.ones(())}).items():
        total = mean.double().cpu().expand(site.num_heads) * queries
        of_site[name] = of_site[name] + total if name in of_site else total


class _Meter:
    """An `AttentionReceiver` that adds up figures of every head, pass by pass."""

    def __init__(self) -> None:
        self.sums: _Sums = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        weights = weights.movedim(site.dims.index("head") - len(site.dims), 0)
        has_queries = "query" in site.dims
        same, query, key = _same_kind(site), site.axis("query"), site.axis("key")
        # One of two sequences may follow the other.
        two = not same and bool(query and key and query.lengths and key.lengths)
        outer = tuple(range(1, weights.dim() - (2 if has_queries else 1)))
        visible = (weights > 0).any(0)
        if has_queries:
            # Weights may vanish by rounding; what no query attends behind itself is hidden from it.
            visible = torch.ones_like(weights[(0,) * (weights.dim() - 2)])
            if same and not bool(weights.triu(1).any()):
                visible = visible.tril()
        keys = visible.sum(-1)
        nats = -torch.special.xlogy(weights, weights).sum(-1)
        entropy = torch.where(keys > 1, nats / keys.clamp(min=2).log(), torch.ones_like(nats))
        means = {"entropy": entropy.flatten(1).mean(1), "near": torch.tensor(math.nan)}
        if has_queries:
            mean_HQK = weights.sum(outer) if outer else weights
            mean_HQK = mean_HQK / mean_HQK.sum(-1, keepdim=True).clamp(min=1e-12)
            key_K = torch.arange(mean_HQK.shape[-1], device=weights.device)
            query_Q = torch.arange(mean_HQK.shape[-2], device=weights.device)
        if two:
            first, total = (0, len(query_Q)) if tile is None else (tile.start, tile.total)
            from_middle = query_Q + first - (total - 1) / 2
            product = (from_middle * (mean_HQK @ key_K.float())).mean(-1)
            means["slope"] = 12 * product / ((total + 1) * max(1, len(key_K) - 1))
        if has_queries and same:
            offset_QK = key_K - query_Q[:, None]
            local_QK = (offset_QK.abs() <= LOCAL).float()
            parts = {"distance": offset_QK.abs(), "local": local_QK}
            parts |= {name: offset_QK == step for name, step in _OFFSETS.items()}
            for name, part_QK in parts.items():
                means[name] = (mean_HQK * part_QK).sum((1, 2)) / len(offset_QK)
            means["first"] = mean_HQK[:, :, 0].mean(1)
            means["near"] = ((visible * local_QK).sum(-1) / keys.clamp(min=1)).mean()
        _add(self.sums, site, means, float(entropy[0].numel()))


class _CopyMeter:
    """An `AttentionReceiver` that adds up what the given queries attend to the given keys."""

    def __init__(self) -> None:
        self.queries, self.keys = torch.zeros(0), torch.zeros(0)
        self.sums: _Sums = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        chosen_BHN = weights[..., self.queries, self.keys]
        _add(self.sums, site, {"induction": chosen_BHN.mean((0, 2))}, 1.0)


def head_patterns(scorer: HeadScorer) -> dict[Head, dict[str, float]]:
    """`FIGURES` and `near` (`local` of uniform weights) of every head of a scorer's data; NaN = not known."""
    meter, copies = _Meter(), _CopyMeter()
    names = list(scorer.sites)
    with torch.inference_mode():
        for run in scorer.passes():
            with capture(names, meter):
                run()
        if hasattr(scorer, "copies"):
            with_distance = [name for name in names if _same_kind(scorer.sites[name])]
            for run, queries, keys in scorer.copies():
                copies.queries, copies.keys = torch.from_numpy(queries), torch.from_numpy(keys)
                with capture(with_distance, copies):
                    run()
    patterns = {}
    for name, site in scorer.sites.items():
        for place, head in enumerate(site.heads):
            patterns[name, head] = dict.fromkeys(FIGURES, math.nan)
            for sums in (meter.sums[name], copies.sums.get(name, {})):
                means = {key: float(total[place] / sums["queries"][place]) for key, total in sums.items()}
                patterns[name, head] |= {key: means[key] for key in means if key != "queries"}
    return patterns


def head_name(figures: dict[str, float]) -> str:
    """A head by what it does most; empty for one that does nothing of it."""
    if figures["induction"] >= INDUCTION:
        return "induction"
    if figures["entropy"] >= UNIFORM:
        return "uniform"
    for name in (*_OFFSETS, "first"):
        if figures[name] >= MOST:
            return name
    if abs(figures["slope"]) >= MOST:
        return "monotone" if figures["slope"] > 0 else "reversed"
    if figures["local"] >= (1 + figures["near"]) * MOST:
        return "local"
    return ""


def _same_kind(site: AttentionSite) -> bool:
    """Whether queries and keys are places of one kind, so that they have a distance."""
    query, key = site.axis("query"), site.axis("key")
    return query is not None and key is not None and query.kind == key.kind


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


def greedy_pruning(scorer: HeadScorer, progress: Progress = SILENT) -> list[PruningStep]:
    """Silence the least important head, look again at those left, and so on until each site has one."""
    left = {name: list(site.heads) for name, site in scorer.sites.items()}
    steps = [PruningStep(len(heads_of(scorer)), None, float("nan"), scorer.figures())]
    silenced: set[Head] = set()
    progress.begin("pruning", len(heads_of(scorer)) - len(left))
    while any(len(heads) > 1 for heads in left.values()):
        every = scorer.importance(silenced).items()
        importance = {head: scorer.overall(values) for head, values in every if len(left[head[0]]) > 1}
        least = min(importance, key=lambda head: importance[head])  # the first of equals, so it repeats
        left[least[0]].remove(least[1])
        silenced.add(least)
        figures = scorer.figures(silenced)
        steps.append(PruningStep(steps[-1].num_heads - 1, least, importance[least], figures))
        progress.advance()
    progress.end()
    return steps


def heads_after_pruning(scorer: HeadScorer, steps: list[PruningStep], number: int) -> Mapping[str, list[int]]:
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


def explain_heads(given: ExplainHeads, running: Running) -> RunReport:
    """Score the heads of a model on a split of a dataset of its family.

    Test data is looked at once, at the end, for the whole and the pruned model.

    Raises: BioattnError for a model without heads, a dataset that does not fit it, a folder in the way;
    SettingsError for one of `prune_to` and `pruned_model` alone, or of a model that cannot lose heads.
    """
    model_folder, dataset, output, split = given.model, given.dataset, given.output, given.split.value
    prune_to, pruned_model, progress = given.prune_to, given.pruned_model, running.progress
    device = running.device(given.device, given.threads)
    if (prune_to is None) != (pruned_model is None):
        raise SettingsError(
            "--prune-to and --pruned-model go together: how many heads, and the folder to write"
        )
    own_names = HEAD_FOLDER.check_output(output, [model_folder, dataset], force=given.force)
    if pruned_model is not None:
        check_apart(pruned_model, [model_folder, dataset, output], "--pruned-model")
    runner = load_runner(model_folder, device)
    judged = with_ability(runner, "head_scorer", "have their heads judged")
    if prune_to is not None:
        judged = with_ability(runner, "write_pruned", "be written with fewer heads", "--prune-to")
    scorer: HeadScorer = judged.head_scorer(dataset, split, progress)
    # Only the dataset of the training says which genes the model never learned from.
    trained_on = read_training_record(model_folder).get("dataset", {}).get("sha256")
    if hasattr(scorer, "figures") and trained_on != sha256_of(dataset):
        other = f"{model_folder} was not trained on {dataset}, whose {split} genes it may have learned from"
        if prune_to is not None:
            raise BioattnError(f"{other}; --prune-to needs the dataset of the training")
        LOGGER.warning(other)
    importance = scorer.importance()
    over_all = {head: scorer.overall(values) for head, values in importance.items()}
    with finite_results(f"{dataset}, {split} data", model_folder):
        require_finite(np.array(list(over_all.values())), "gradients")
    record: dict[str, Any] = {
        "model_type": runner.family,
        "model_sha256": runner.sha256,
        "input_sha256": sha256_of(dataset),
        "split": split,
        **scorer.record(),
    }
    patterns = head_patterns(scorer)
    named = {head: head_name(figures) for head, figures in patterns.items()}
    heads = pd.DataFrame(
        [
            {"site": site, "head": head, "importance": over_all[site, head], "name": named[site, head]}
            | {figure: patterns[site, head][figure] for figure in FIGURES}
            for site, head in heads_of(scorer)
        ]
    )
    steps: list[PruningStep] = []
    whole = pruned = test = None
    if hasattr(scorer, "figures"):
        whole = scorer.figures()
        with finite_results(f"{dataset}, {split} data", model_folder):
            require_finite(np.array(whole.loss), "loss")
        alone = [scorer.figures({head}) for head in watched(progress, "one head left out", heads_of(scorer))]
        heads = heads.assign(
            loss_without=[figures.loss for figures in alone],
            accuracy_without=[figures.accuracy for figures in alone],
        )
        steps = greedy_pruning(scorer, progress)
        record["whole"] = _figures(whole)
        if prune_to is not None and pruned_model is not None:
            keep = heads_after_pruning(scorer, steps, prune_to)
            pruned = next(step.figures for step in steps if step.num_heads == prune_to)
            record["pruned"] = {"heads": dict(keep), split: _figures(pruned)}
            told = record["pruned"]
            test = judged.write_pruned(pruned_model, model_folder, dataset, keep, told, force=given.force)
            if test is not None:
                told["test_accuracy"] = {"whole": test[0], "pruned": test[1]}
    of_items = [
        (*head, item, float(value))
        for head, values in importance.items()
        for item, value in zip(scorer.items, values, strict=True)
    ]
    columns = ["site", "head", scorer.item, "importance"]
    tables = {HEADS: heads, f"{scorer.item}s.tsv": pd.DataFrame(of_items, columns=columns)}
    if steps:
        tables[PRUNING] = pd.DataFrame(
            [(step.num_heads, *(step.removed or ("", "")), step.importance, *step.figures) for step in steps],
            columns=["heads_left", "removed_site", "removed_head", "importance", "loss", "accuracy"],
        )
    with atomic_folder(output, own_names) as folder:
        for name, table in tables.items():
            write_table(folder / name, table, "%.6g")
        HEAD_FOLDER.write(folder, record)
    most, least = (choose(over_all, key=lambda head: over_all[head]) for choose in (max, min))
    said = [
        f"{counted(len(over_all), 'head')} at {counted(len(scorer.sites), 'site')}; most important: head "
        f"{most[1]} of {most[0]}, least: head {least[1]} of {least[0]}"
    ]
    counts = sorted(Counter(filter(None, named.values())).items())
    if counts:
        said.append("named: " + ", ".join(f"{number} {name}" for name, number in counts))
    if whole is not None and pruned is not None:
        said.append(
            f"{prune_to} of {len(over_all)} heads: accuracy {pruned.accuracy:.4f}, with all "
            f"{whole.accuracy:.4f} ({split} genes)"
        )
    if test is not None:
        said.append(f"on test genes: accuracy {test[1]:.4f}, with all heads {test[0]:.4f}")
    written = [output] if pruned_model is None else [output, pruned_model]
    said += [f"wrote {path}" for path in reversed(written)]
    return RunReport(*said, outputs=written, device=device.type)


def _figures(figures: HeadFigures) -> dict[str, float | None]:
    values = figures._asdict().items()
    return {name: None if math.isnan(value) else float(np.float32(value)) for name, value in values}
