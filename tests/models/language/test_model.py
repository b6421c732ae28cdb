"""The transformer against torch's own, and what causal attention and the cache must keep."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.choices import PositionEncoding
from bioattn.errors import FormatError
from bioattn.formats.nucleotides import encode
from bioattn.models.language.config import Shape
from bioattn.models.language.generation import drawn_texts
from bioattn.models.language.scoring import read_variants, variant_scores
from bioattn.models.language.source import read_tokens
from bioattn.sequences.vocabulary import CLS, EOS, MASK, PAD, SPECIAL
from tests.models.language.made_models import loaded_of, log_likelihoods, make_model


def make_tokens(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(len(SPECIAL), len(SPECIAL) + 4, (rows, length - 1), generator=generator)
    return torch.cat([torch.full((rows, 1), CLS), words], dim=1)


def torch_layer(block: torch.nn.Module) -> torch.nn.TransformerEncoderLayer:
    """torch's pre-norm layer with the weights of a block."""
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).eval()
    attention = block.self_attention
    projections = (attention.project_query, attention.project_key, attention.project_value)
    own = {
        "self_attn.in_proj_weight": torch.cat([each.weight for each in projections]),
        # Keys have no bias: it adds the same to all logits of a query.
        "self_attn.in_proj_bias": torch.cat(
            [torch.zeros(16) if each.bias is None else each.bias for each in projections]
        ),
    }
    for theirs, ours in (
        ("self_attn.out_proj", attention.project_output),
        ("linear1", block.widen),
        ("linear2", block.narrow),
        ("norm1", block.normalise_self),
        ("norm2", block.normalise_hidden),
    ):
        own |= {f"{theirs}.weight": ours.weight, f"{theirs}.bias": ours.bias}
    layer.load_state_dict(own)
    return layer


@pytest.mark.parametrize("shape", [Shape.ENCODER, Shape.DECODER])
def test_hidden_channels_are_those_of_torchs_layers(shape: Shape):
    model = make_model(shape, PositionEncoding.LEARNED)
    tokens_BL = make_tokens(3, 10)
    if shape is Shape.ENCODER:
        tokens_BL[1, 6:] = PAD
    blocks = model.encoder if shape is Shape.ENCODER else model.decoder
    assert blocks is not None
    hidden = model.embed(tokens_BL) + model.add_positions.table_LC[:10]
    causal = torch.nn.Transformer.generate_square_subsequent_mask(10) if shape is Shape.DECODER else None
    for block in blocks:
        hidden = torch_layer(block)(hidden, src_mask=causal, src_key_padding_mask=tokens_BL == PAD)
    expected = model.normalise(hidden)
    shown = tokens_BL != PAD
    with torch.no_grad():
        assert torch.allclose(model.hidden(tokens_BL)[shown], expected[shown], atol=1e-5)


@pytest.mark.parametrize("ngram", [1, 3])
@pytest.mark.parametrize("positions", list(PositionEncoding))
def test_a_decoder_does_not_see_what_comes_later(positions: PositionEncoding, ngram: int):
    model = make_model(Shape.DECODER, positions, ngram=ngram)
    tokens_BL = make_tokens(1, 12)
    changed_BL = tokens_BL.clone()
    changed_BL[0, 8] = tokens_BL[0, 8] % 4 + len(SPECIAL)
    with torch.no_grad():
        before, after = model(tokens_BL), model(changed_BL)
    assert torch.equal(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8], after[:, 8])


@pytest.mark.parametrize("shape", [Shape.ENCODER, Shape.ENCODER_DECODER])
def test_padding_changes_nothing(shape: Shape):
    model = make_model(shape)
    tokens_BL = make_tokens(1, 9)
    padded_BL = torch.cat([tokens_BL, torch.full((1, 5), PAD)], dim=1)
    both = shape is Shape.ENCODER_DECODER
    with torch.no_grad():
        plain = model(tokens_BL, tokens_BL if both else None)
        longer = model(padded_BL, padded_BL if both else None)[:, :9]
    assert torch.allclose(plain, longer, atol=1e-5)


def test_each_token_is_embedded_with_the_word_it_ends_and_its_phase():
    model = make_model(Shape.DECODER, ngram=3, period=3)
    tokens_BL = make_tokens(2, 9)
    tokens_BL[1, 4] = MASK
    preceding = model.preceding
    assert preceding is not None
    assert preceding.embed is not None
    assert preceding.phase_PC is not None
    with torch.no_grad():
        given = preceding(tokens_BL)
        for row, tokens in enumerate(tokens_BL.tolist()):
            for place in range(len(tokens)):
                word = [token - len(SPECIAL) for token in tokens[max(0, place - 2) : place + 1]]
                known = len(word) == 3 and min(word) >= 0
                number = 16 * word[0] + 4 * word[1] + word[2] if known else 64
                expected = preceding.embed.weight[number] + preceding.phase_PC[place % 3]
                assert torch.allclose(given[row, place], expected)


@pytest.mark.parametrize("ngram", [1, 3])
@pytest.mark.parametrize("positions", list(PositionEncoding))
def test_the_likeliest_tokens_are_the_same_with_and_without_a_cache(positions: PositionEncoding, ngram: int):
    model = make_model(Shape.DECODER, positions, ngram=ngram, period=ngram - 1)
    with torch.no_grad():
        model.bias_V[EOS] = -100.0
    loaded = loaded_of(model)
    prompt = make_tokens(1, 4)[0].numpy()
    (made,) = drawn_texts(loaded, [prompt], 1, 20, temperature=0, top_p=1.0, seed=0)
    tokens = torch.from_numpy(prompt)[None]
    while tokens.shape[1] <= 20:
        with torch.no_grad():
            logits = model(tokens)[:, -1]
        logits[:, [*range(EOS), *range(EOS + 1, len(SPECIAL))]] = -torch.inf
        tokens = torch.cat([tokens, logits.argmax(-1)[:, None]], dim=1)
    assert made == loaded.vocabulary.text(tokens[0, 1:].numpy())


def test_drawn_tokens_have_the_probabilities_of_the_model():
    """Also those of top-p: the likeliest that hold it, and no other."""
    model = make_model(Shape.DECODER)
    loaded = loaded_of(model)
    prompt = np.array([CLS])
    with torch.no_grad():
        logits = model(torch.from_numpy(prompt)[None])[0, -1]
    logits[[*range(EOS), *range(EOS + 1, len(SPECIAL))]] = -torch.inf
    expected = logits.softmax(-1).numpy()

    def shares(top_p: float) -> np.ndarray:
        made = drawn_texts(loaded, [prompt], 4000, 1, temperature=1.0, top_p=top_p, seed=3)
        first = [loaded.vocabulary.tokens.index(text) if text else EOS for text in made]
        return np.bincount(first, minlength=len(expected)) / 4000

    assert np.allclose(shares(1.0), expected, atol=0.04)
    order = np.argsort(-expected)
    kept = order[: int(np.searchsorted(np.cumsum(expected[order]), 0.6)) + 1]
    assert set(np.flatnonzero(shares(0.6))) == set(kept)


def test_pseudo_likelihoods_mask_one_word_at_a_time():
    model = make_model(Shape.ENCODER)
    loaded = loaded_of(model)
    tokens = np.append(make_tokens(1, 9)[0].numpy(), EOS)
    expected = []
    for place in range(1, 9):
        hidden = torch.from_numpy(tokens.copy())[None]
        hidden[0, place] = MASK
        with torch.no_grad():
            expected.append(model(hidden)[0, place].log_softmax(-1)[tokens[place]].item())
    assert np.allclose(log_likelihoods(loaded, tokens)[:-1], expected, atol=1e-5)


def test_mutants_are_read_as_hgvs_names_them():
    named = ["p.His2Cys", "p.[His2Cys;Met1Ala]", "p.(H2C)", "h2c"]
    letters = [each.letters for each in read_variants(named, {"s": "MHK"})]
    assert letters == [{1: "C"}, {1: "C", 0: "A"}, {1: "C"}, {1: "C"}]
    for refused in ("p.His2Ter", "p.His2=", "p.His2del", "p.Lys2Ala"):
        with pytest.raises(FormatError, match=r"variants:1: "):
            read_variants([refused], {"s": "MHK"})


@pytest.mark.parametrize("shape", [Shape.ENCODER, Shape.DECODER])
def test_variants_are_scored_as_their_definition_says(shape: Shape, tmp_path: Path):
    model = make_model(shape)
    loaded = loaded_of(model)
    (tmp_path / "s.fa").write_text(">s\nACGTACGG\n")
    (tmp_path / "v.tsv").write_text("sequence\tmutant\ns\tC2T\ns\tc2t:G8A\n")
    source = read_tokens(tmp_path / "s.fa", model.vocabulary, 24)
    variants = read_variants(tmp_path / "v.tsv", {"s": "ACGTACGG"})
    scores = list(variant_scores(loaded, source, {"s": "ACGTACGG"}, variants))
    for mutant, places, found in (("ATGTACGG", [2], scores[0]), ("ATGTACGA", [2, 8], scores[1])):
        old, new = source.items[0], np.concatenate([[CLS], model.vocabulary.tokenize(encode(mutant)), [EOS]])
        if shape is Shape.ENCODER:
            masked = old.copy()
            masked[places] = MASK
            with torch.no_grad():
                likely = model(torch.from_numpy(masked)[None])[0].log_softmax(-1).numpy()
            expected = sum(likely[place, new[place]] - likely[place, old[place]] for place in places)
        else:
            with torch.no_grad():
                old_LV, new_LV = (
                    model(torch.from_numpy(each)[None])[0].log_softmax(-1) for each in (old, new)
                )
            rows = range(len(old) - 2)
            expected = sum((new_LV[i, new[i + 1]] - old_LV[i, old[i + 1]]).item() for i in rows)
        assert found == pytest.approx(expected, abs=1e-4)
