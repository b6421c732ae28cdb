"""Language models as encoders of promoters: bins against a plain loop, and the stem through the command line."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bioattn.models.family import ability, family
from bioattn.models.language.config import Shape
from bioattn.models.language.encoder import LanguageEncoder
from bioattn.models.language.model import LanguageModel
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import PublishedTokens, Vocabulary
from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.models.language.made_models import make_config, make_model, saved

OVERLAPPING = PublishedTokens(
    tokens=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map("".join, product("ACGT", repeat=3))),
    special=(0, 2, 3, 4, 1),
    begins=True,
    ends=True,
    overlapping=True,
)


@pytest.mark.parametrize("shape", [Shape.ENCODER, Shape.ENCODER_DECODER])
@pytest.mark.parametrize(("kmer", "published"), [(1, None), (3, None), (3, OVERLAPPING)])
def test_bins_are_means_of_their_tokens(shape, kmer, published):
    torch.manual_seed(0)
    config = make_config(shape, kmer=kmer, layers=1, channels=8, context=32)
    vocabulary = Vocabulary(Alphabet.DNA, kmer, published)
    encoder = LanguageEncoder(LanguageModel(config, vocabulary)).eval()
    codes_BL = torch.tensor([[0, 1, 2, 3, 0, 0, 1, 4, 2, 3, 1], [3, 3, 2, 1, 1, 0, 2, 0, 3, 1, 2]])
    edges = (0, 3, 7, 11)
    with torch.no_grad():
        found = encoder(codes_BL.to(torch.uint8), edges)
        for row, codes in enumerate(codes_BL.numpy().astype(np.uint8)):
            tokens = torch.from_numpy(vocabulary.framed(vocabulary.tokenize(codes)))[None]
            model = encoder.model
            hidden = (model.encode if shape is Shape.ENCODER_DECODER else model.hidden)(tokens)[0]
            step = 1 if published else kmer
            # Words from 1 on; those of one base behind the last whole word are tokens of their own.
            covered = [range(first, first + kmer) for first in range(0, len(codes) - kmer + 1, step)]
            if not published:
                covered += [range(base, base + 1) for base in range(len(codes) // kmer * kmer, len(codes))]
            for place, (start, end) in enumerate(pairwise(edges)):
                inside = [sum(start <= base < end for base in word) for word in covered]
                expected = sum(count * hidden[1 + word] for word, count in enumerate(inside)) / sum(inside)
                assert torch.allclose(found[row, place], expected, atol=1e-6)
    again = ability(family("language"), "encoder")(encoder.description())
    again.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        assert torch.equal(again.eval()(codes_BL.to(torch.uint8), edges), found)


def test_promoter_models_begin_with_an_encoder(tmp_path, capsys):
    """Frozen its weights stay; else they learn. Neither its maps nor gradients by base are promised."""
    saved(tmp_path / "lm", make_model(Shape.DECODER))
    promoters, dataset = tmp_path / "promoters.fa", tmp_path / "promoters.dataset.h5"
    genome = ("data/tiny/genome.fa", "data/tiny/annotation.gff3")
    prepare = ("prepare", "promoters", *genome, "--downstream", "0", "-o", promoters)
    assert bioattn(*prepare, "--upstream", "20") == 0
    assert bioattn("prepare", "dataset", promoters, "data/tiny/responses.tsv", "-o", dataset) == 0
    train = ("train", "promoter", dataset, "--epochs", "1", "--no-baselines", "--stem", "pretrained")
    begun = load_file(tmp_path / "lm" / "model.safetensors")

    def is_kept(folder):
        """Whether the encoder's weights are those of the language model."""
        weights = load_file(folder / "model.safetensors")
        return all(
            torch.equal(weights[f"members.0.network.stem.encoder.model.{name}"], begun[name])
            for name in begun
        )

    frozen, learned = tmp_path / "frozen", tmp_path / "learned"
    assert bioattn(*train, "--encoder", tmp_path / "lm", "-o", frozen) == 0
    assert is_kept(frozen)
    # Its encoder is an encoder, too.
    (tmp_path / "learn.toml").write_text("[model]\ntrain_encoder = true\n")
    assert bioattn(*train, "--encoder", frozen, "-o", learned, "-c", tmp_path / "learn.toml") == 0
    assert not is_kept(learned)
    assert bioattn("export", "attention", learned, promoters, "-o", tmp_path / "a.h5") == 0
    with open_attention(tmp_path / "a.h5") as attention:
        assert list(attention.sites) == ["promoter.cross.0"]
    attribution = ("explain", "attribution", learned, promoters, "--genes", "G01", "-o", tmp_path / "b.h5")
    assert bioattn(*attribution) == 0
    capsys.readouterr()
    for words, code, said in (
        ((*attribution, "--method", "gradient-input", "--force"), 1, "to which no gradient goes"),
        ((*train, "-o", tmp_path / "no"), 2, "--stem pretrained and --encoder"),
        ((*train, "-o", tmp_path / "no", "--encoder", "data/models/evoformer-contacts"), 1, "cannot encode"),
    ):
        assert bioattn(*words) == code
        assert said in capsys.readouterr().err
    assert bioattn(*prepare[:-1], tmp_path / "long.fa", "--upstream", "60") == 0
    longer = tmp_path / "long.dataset.h5"
    assert bioattn("prepare", "dataset", tmp_path / "long.fa", "data/tiny/responses.tsv", "-o", longer) == 0
    train = (*train[:2], longer, *train[3:])
    assert bioattn(*train, "--encoder", tmp_path / "lm", "-o", tmp_path / "no") == 1
    assert "the encoder reads 24 at once" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
