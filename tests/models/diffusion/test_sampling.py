"""Noise and samplers of diffusion models, against what can be computed by hand."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from bioattn.attention.capture import capture
from bioattn.choices import Noise
from bioattn.errors import BioattnError
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.models.diffusion.family import Condition, DiffusionModelConfig
from bioattn.models.diffusion.model import Denoiser
from bioattn.models.diffusion.sampling import Wanted, designs
from bioattn.models.noise import HIDDEN, evidence, noised, signal
from bioattn.simulate.motifs import MarkovBackground
from bioattn.store.schema import AttentionOptions

ASKED = torch.tensor([0.6, 0.2, 0.15, 0.05])
ANY = torch.tensor([0.4, 0.3, 0.2, 0.1])


class ExactDenoiser(nn.Module):
    """What a perfect model knows of promoters whose bases are independent: `ASKED` of them with the treatment on,
    `ANY` without saying."""

    def __init__(self, noise):
        super().__init__()
        self.config = DiffusionModelConfig(length=12, treatments=("heat",), noise=noise)
        self.nothing = nn.Parameter(torch.zeros(()))

    def forward(self, bases, time_BS, levels_BT, tile=None):
        prior_B4 = torch.where(levels_BT == 2, ASKED, ANY)
        logits = prior_B4.log()[:, None, None, :].expand(*bases.shape[:3], 4)
        return logits if self.config.noise is Noise.MASKED else logits + bases


def wanted(guidance=0.0, steps=12, kept=None, level=2):
    kept = np.full(12, HIDDEN, np.uint8) if kept is None else kept
    return Wanted(levels=(level,), guidance=guidance, steps=steps, kept=kept)


@pytest.mark.parametrize(("noise", "steps"), [(Noise.MASKED, 4), (Noise.MASKED, 40), (Noise.GAUSSIAN, 60)])
@pytest.mark.parametrize("level", [0, 2])
def test_a_perfect_model_gives_its_own_distribution(noise, steps, level):
    *_, last = designs(ExactDenoiser(noise), wanted(0, steps, level=level), 2000, np.random.default_rng(1))
    shares = np.bincount(last.ravel(), minlength=4) / last.size
    np.testing.assert_allclose(shares, ASKED if level == 2 else ANY, atol=0.015)


def test_guidance_raises_the_ratio_of_asked_to_any_to_its_power():
    *_, last = designs(ExactDenoiser(Noise.MASKED), wanted(2.0), 3000, np.random.default_rng(2))
    expected = ASKED**3 / ANY**2
    shares = np.bincount(last.ravel(), minlength=4) / last.size
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.012)


def test_the_gradient_of_a_perfect_classifier_gives_its_posterior():
    """p(y | promoter) is a product over its bases; what it is of a noised one follows from Bayes' rule."""
    steps, seen = 100, ASKED / ANY

    def guide(noised_BL4, _):
        noised_BL4 = noised_BL4.clone().requires_grad_()
        logits = ExactDenoiser(Noise.GAUSSIAN)(noised_BL4[:, None], torch.zeros(1, 1), torch.zeros(1, 1))
        worth = (logits.softmax(-1) @ seen).log().sum()
        return torch.autograd.grad(worth, noised_BL4)[0]

    asked = Wanted(levels=(2,), guidance=1.0, steps=steps, kept=wanted().kept, guide=guide)
    *_, last = designs(ExactDenoiser(Noise.GAUSSIAN), asked, 2000, np.random.default_rng(3))
    np.testing.assert_allclose(np.bincount(last.ravel(), minlength=4) / last.size, ASKED, atol=0.015)


@pytest.mark.parametrize("noise", list(Noise))
def test_kept_bases_stay_and_all_else_is_written(noise):
    kept = np.array([HIDDEN, 0, 1, HIDDEN, 2, 3, 3, HIDDEN, HIDDEN, HIDDEN, HIDDEN, 2], np.uint8)
    steps = list(designs(ExactDenoiser(noise), wanted(kept=kept, steps=8), 20, np.random.default_rng(0)))
    for codes in steps:
        assert (codes[:, kept < 4] == kept[kept < 4]).all()
    assert (steps[-1] < 4).all()
    if noise is Noise.MASKED:  # six free bases: one at a time
        assert [int((codes == HIDDEN).sum(1).max()) for codes in steps] == [5, 4, 3, 2, 1, 0]


def test_masked_noise_hides_known_bases_and_spreads_its_times():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (400, 30)).astype(np.uint8)
    noise = noised(codes, Noise.MASKED, rng)
    hidden = noise.bases[:, 0].numpy() == HIDDEN
    assert (noise.bases[:, 0].numpy()[~hidden] == codes[~hidden]).all()
    wanted_BL = hidden & (codes < 4)
    np.testing.assert_allclose(noise.weight_BL, wanted_BL / wanted_BL.sum(1, keepdims=True), rtol=1e-6)
    share = np.sort(wanted_BL.sum(1) / (codes < 4).sum(1))
    assert np.abs(share - np.linspace(0, 1, 400)).max() < 0.06  # a base of some 24 more than the time


@pytest.mark.parametrize("time", [0.9, 0.5, 0.1])
def test_gaussian_noise_leaves_the_share_of_bits_unknown_that_its_time_says(time):
    """Evidence is ln of the density of the noised code, up to a constant, and its bits are counted."""
    rng, strength = np.random.default_rng(0), signal(torch.tensor(time))
    codes = torch.from_numpy(rng.integers(0, 5, (200, 200)).astype(np.uint8))
    found = evidence(codes, strength, rng).double()
    noised_code = torch.distributions.Normal(torch.eye(4).double(), strength.rsqrt())
    density = noised_code.log_prob((found / strength)[..., None, :]).sum(-1)
    assert torch.allclose(density.log_softmax(-1), found.log_softmax(-1), atol=1e-6)
    bits = torch.distributions.Categorical(logits=found).entropy() / np.log(4)
    assert float(bits[codes < 4].mean()) == pytest.approx(time, abs=0.012)
    assert (bits[codes == 4] == 1).all()


@pytest.mark.parametrize("condition", list(Condition))
@pytest.mark.parametrize("noise", list(Noise))
def test_steps_and_promoters_do_not_mix_and_attention_adds_up(condition, noise):
    torch.manual_seed(0)
    config = DiffusionModelConfig(
        length=21, treatments=("a", "b"), channels=16, stages=3, condition=condition, noise=noise
    )
    model = Denoiser(config).eval()
    codes = torch.randint(0, 5, (3, 2, 21))
    bases = codes if noise is Noise.MASKED else torch.randn(3, 2, 21, 4)
    time, levels = torch.rand(3, 2), torch.tensor([[0, 1], [2, 0], [1, 2]])
    receiver = BatchReceiver(AttentionOptions())
    with torch.inference_mode(), capture(["*"], receiver):
        together = model(bases, time, levels)
    for row in range(3):
        for step in range(2):
            one = slice(row, row + 1), slice(step, step + 1)
            with torch.inference_mode():
                alone = model(bases[one], time[one], levels[row : row + 1])
            assert torch.allclose(alone[0, 0], together[row, step], atol=1e-5)
    arrays = receiver.take()
    assert len(arrays) == (0 if condition is Condition.ADAGN else 5)
    for path, of_site in arrays.items():
        bins = -(-21 // 2 ** int(path[-1]))
        assert of_site["weights"].shape == (3, 2, config.num_heads, bins, 3)
        np.testing.assert_allclose(of_site["weights"].sum(-1), 1, atol=1e-5)
    # What the treatments say reaches the output.
    with torch.inference_mode():
        other = model(bases, time, levels.flip(1))
    assert not torch.allclose(other[0], together[0], atol=1e-4)
    # Another length uses the same weights.
    longer = model.of_length(30)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), longer.parameters(), strict=True))


def test_a_markov_chain_is_fitted_by_counting():
    codes = np.array([[0, 1, 0, 1, 4, 2], [3, 3, 0, 1, 2, 2]], np.uint8)
    chain = MarkovBackground.fitted(codes, 1)
    counts = np.ones((4, 4))
    for row in codes.tolist():
        for first, second in itertools.pairwise(row):
            if max(first, second) < 4:
                counts[first, second] += 1
    np.testing.assert_allclose(chain.transitions, counts / counts.sum(1, keepdims=True))
    nats = chain.nats(codes)
    assert np.isnan(nats[0, 3:]).all()
    assert nats[1, 2] == pytest.approx(-np.log(chain.transitions[0][1]))


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(BioattnError, match="--guidance 1e\\+39: leads to values that are not finite"):
        list(designs(ExactDenoiser(Noise.MASKED), wanted(1e39), 2, np.random.default_rng(0)))
