"""Importance of heads: the gradient against differences, a head without effect, and pruning step by step."""

import numpy as np
import pytest
import torch

from bioattn.attention.measures import attention_layers, masked_heads
from bioattn.choices import TEST, VALIDATION
from bioattn.errors import BioattnError
from bioattn.interpret.heads import greedy_pruning, heads_after_pruning
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, Stem
from bioattn.models.promoter.heads import PromoterHeadScorer
from bioattn.promoters.treatments import named_treatments
from tests.making import promoter_dataset, untrained_model

CPU = torch.device("cpu")
NAMES = ["a", "b", "c"]
SMALL = {"length": 40, "channels": 16, "kernel": 5, "pool": 4, "hidden_channels": 8, "head_channels": 4}
SHAPES = {
    "cross": {"num_heads": 3},
    "two hops": {"num_heads": 2, "hops": 2},
    "shared readout": {"num_heads": 2, "readout": "shared", "sink": True},
    "transformer": {"num_heads": 2, "stem": Stem.TRANSFORMER, "stem_layers": 1},
    "cross-all": {"num_heads": 2, "conditioning": Conditioning.CROSS_ALL, "value_layers": 1},
}


def make_dataset(task="regression", genes=40, seed=0):
    random = np.random.default_rng(seed)
    targets = random.normal(5, 2, (genes, 3)).astype(np.float32)
    if task == "binary":
        targets = (targets > 5).astype(np.float32)
    targets[random.random(targets.shape) < 0.2] = np.nan
    codes = random.integers(0, 4, (genes, 40)).astype(np.uint8)
    split = np.repeat([0, 1], [genes - 10, 10])
    return promoter_dataset(codes, targets, named_treatments(["c", "a", "b"]), split, task=task)


def make_model(shape="cross", task="regression"):
    config = PromoterModelConfig(**SMALL, **SHAPES[shape], unconditional=False)
    # Layers of the transformer stem change nothing before training.
    spread = 0.1 if shape == "transformer" else 0.0
    loaded = untrained_model(config, named_treatments(NAMES), task=task, spread=spread)
    if task == "regression":
        loaded.model.members[0].response_mean_T.fill_(5.0)
        loaded.model.members[0].response_sd_T.fill_(2.0)
    return loaded


def cell_loss(loaded, dataset, gene, treatment, masks):
    """The loss of one cell, by itself, in double precision."""
    model = loaded.model.double()
    codes = torch.from_numpy(dataset.codes[[gene]])
    with torch.no_grad(), masked_heads(model, {name: mask.double() for name, mask in masks.items()}):
        answers = model if loaded.task == "binary" else model.members[0].network
        answer = answers(codes, loaded.encode_treatments(named_treatments([treatment])))[0, 0]
    target = float(dataset.targets[gene, dataset.treatments.names.index(treatment)])
    if loaded.task == "binary":
        return float(torch.nn.functional.binary_cross_entropy_with_logits(answer, answer * 0 + target))
    return float(answer - (target - 5) / 2) ** 2


@pytest.mark.parametrize(
    ("shape", "task"),
    [
        ("cross", "binary"),
        ("two hops", "regression"),
        ("transformer", "regression"),
        ("cross-all", "regression"),
    ],
)
def test_importance_is_the_mean_size_of_the_loss_s_slope(shape, task):
    """Cell by cell, head by head, by moving its mask to either side of 1."""
    dataset, loaded = make_dataset(task), make_model(shape, task)
    scorer = PromoterHeadScorer(loaded, dataset, VALIDATION)
    found = scorer.importance()
    step = 1e-4
    for (site, head), by_treatment in found.items():
        number = attention_layers(loaded.model)[site][1].num_heads
        for place, treatment in enumerate(NAMES):
            slopes = []
            for gene in dataset.genes_in(VALIDATION):
                if np.isnan(dataset.targets[gene, dataset.treatments.names.index(treatment)]):
                    continue
                sides = []
                for sign in (1, -1):
                    mask = torch.ones(number, dtype=torch.float64)
                    mask[head] += sign * step
                    sides.append(cell_loss(loaded, dataset, gene, treatment, {site: mask}))
                slopes.append(abs(sides[0] - sides[1]) / (2 * step))
            assert by_treatment[place] == pytest.approx(np.mean(slopes), rel=2e-3, abs=1e-7)
    assert min(scorer.overall(values) for values in found.values()) > 1e-5


def test_a_head_without_effect_has_no_importance_and_is_the_first_to_go():
    dataset, loaded = make_dataset(), make_model()
    (([project], site),) = attention_layers(loaded.model).values()
    with torch.no_grad():
        project.weight.unflatten(1, (3, -1))[:, 1] = 0
    scorer = PromoterHeadScorer(loaded, dataset, VALIDATION)
    importance = scorer.importance()
    assert scorer.overall(importance[site.name, 1]) == 0
    assert all(scorer.overall(importance[site.name, head]) > 0 for head in (0, 2))
    whole = scorer.figures()
    assert scorer.figures({(site.name, 1)}).loss == pytest.approx(whole.loss, abs=1e-6)
    assert abs(scorer.figures({(site.name, 0)}).loss - whole.loss) > 1e-6
    steps = greedy_pruning(scorer)
    assert [step.num_heads for step in steps] == [3, 2, 1]
    assert steps[1].removed == (site.name, 1)
    assert steps[1].importance == 0
    assert steps[1].figures.loss == pytest.approx(whole.loss, abs=1e-6)
    # The second to go is the less important of the two, looked at anew.
    again = scorer.importance({(site.name, 1)})
    least = min(again, key=lambda head: scorer.overall(again[head]))
    assert steps[2].removed == least
    assert heads_after_pruning(scorer, steps, 2) == {site.name: [0, 2]}
    with pytest.raises(BioattnError, match=r"--prune-to 0: .* ask for 1 to 3"):
        heads_after_pruning(scorer, steps, 0)


def test_every_site_keeps_a_head():
    scorer = PromoterHeadScorer(make_model("two hops"), make_dataset(), VALIDATION)
    steps = greedy_pruning(scorer)
    assert steps[-1].num_heads == 2
    assert sorted(map(len, heads_after_pruning(scorer, steps, 2).values())) == [1, 1]


def test_what_does_not_fit_is_refused():
    dataset = make_dataset()
    with pytest.raises(BioattnError, match="no response of the test genes"):
        PromoterHeadScorer(make_model(), dataset, TEST)
    with pytest.raises(BioattnError, match="the dataset's task is binary, the model's regression"):
        PromoterHeadScorer(make_model(), make_dataset("binary"), VALIDATION)
