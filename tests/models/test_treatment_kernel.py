"""Kernel attention over measured treatments: weights by hand, widths, and the way through the commands."""

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.models.promoter.config import TreatmentEncoding
from bioattn.models.promoter.treatment_encoder import FeatureEncoder, KernelEncoder, chosen_widths
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from tests.making import bioattn


def table(**columns):
    names = columns.pop("names")
    return TreatmentTable(pd.DataFrame(columns, index=pd.Index(names, dtype=object)))


MEASURED = table(
    names=["a", "b", "c", "d"],
    agent=np.array(["x", "x", "y", ""], dtype=object),
    minutes=[10.0, 20.0, 20.0, np.nan],
)


def encoder_of(measured, responses, **settings):
    vocabulary = TreatmentVocabulary.learn(
        measured, encoding=TreatmentEncoding.KERNEL, unconditional=True, **settings
    )
    torch.manual_seed(0)
    encoder = KernelEncoder(vocabulary, 5, 2)
    encoder.remember(vocabulary.encode(measured), responses)
    return vocabulary, encoder


def test_weights_are_gaussians_of_the_distance():
    vocabulary, encoder = encoder_of(MEASURED, np.random.default_rng(0).standard_normal((4, 30)))
    (agent, *_), (minutes, *_) = (1 / encoder.score.width_HD[0, group] for group in encoder._groups(1))
    asked = table(names=["b", "new", "odd"], agent=["x", "y", "q"], minutes=[20.0, 15.0, np.nan])
    weights = encoder.weights(vocabulary.encode(asked)).numpy()
    np.testing.assert_array_equal(weights[0], [0, 1, 0, 0])  # a measured one is itself
    scale = vocabulary.numbers[0]
    standard = [(each - scale.mean) / scale.sd for each in (10, 20, 20)]
    here = (15 - scale.mean) / scale.sd
    distances = [
        (1 / agent**2, (standard[0] - here) ** 2 / minutes**2),
        (1 / agent**2, (standard[1] - here) ** 2 / minutes**2),
        (0.0, (standard[2] - here) ** 2 / minutes**2),
        (1 / agent**2, (here**2 + 1) / minutes**2),  # d has no time
    ]
    plain = np.exp(-0.5 * np.array([float(one + other) for one, other in distances]))
    np.testing.assert_allclose(weights[1], plain / plain.sum(), rtol=1e-4)
    # What was never seen and what is missing are alike: nothing is known.
    assert weights[2].argmax() == 3
    tokens = encoder(vocabulary.encode(asked)).detach().numpy()
    np.testing.assert_allclose(tokens[1], np.tensordot(weights[1], encoder.tokens_TMC.detach(), 1), rtol=1e-5)


def test_widths_follow_what_decides_the_responses():
    """Responses hang on the first feature smoothly and on the second not at all."""
    generator = np.random.default_rng(1)
    features = generator.standard_normal((40, 2))
    responses = np.sin(features[:, :1] + generator.random((1, 60)) * 6)
    squared = np.square(features.T[:, :, None] - features.T[:, None])
    narrow, wide = chosen_widths(squared, responses)
    assert narrow < 0.5
    assert wide > 4


def test_molecules_count_by_tanimoto():
    pytest.importorskip("rdkit", reason="no RDKit here (pip install rdkit)")
    measured = table(names=["a", "b", "c"], SMILES=np.array(["CCO", "c1ccccc1O", ""], dtype=object))
    vocabulary, encoder = encoder_of(measured, np.random.default_rng(0).standard_normal((3, 9)))
    assert vocabulary.columns == ["SMILES"]
    asked = table(names=["phenol-like", "none"], SMILES=["Cc1ccccc1O", ""])
    weights = encoder.weights(vocabulary.encode(asked)).numpy()
    assert weights[0].argmax() == 1
    assert weights[1].argmax() == 2  # none is like none
    with pytest.raises(Exception, match="treatment 'n': the molecule 'C1CC' is not valid SMILES"):
        vocabulary.encode(table(names=["n"], SMILES=["C1CC"]))
    assert encoder.weights(vocabulary.encode(named_treatments(["b"]))).tolist() == [[0, 1, 0]]


def test_molecules_as_graphs():
    """A treatment's token is what its atoms write; padding, other treatments and joining change nothing."""
    pytest.importorskip("rdkit", reason="no RDKit here (pip install rdkit)")
    measured = table(names=["a", "b", "c"], smiles=["CCO", "c1ccccc1O", ""], minutes=[5.0, 10.0, 20.0])
    learned = {"encoding": TreatmentEncoding.MOLECULE, "unconditional": True}
    vocabulary = TreatmentVocabulary.learn(measured, **learned)
    torch.manual_seed(0)
    encoder = FeatureEncoder(vocabulary, 6, dropout=0.0).eval()
    batch = vocabulary.encode(measured)
    with torch.no_grad():
        tokens = encoder(batch)
        assert tokens.shape == (3, 2, 6)
        assert not tokens[2, 0].any()  # no molecule
        alone = vocabulary.encode(measured.select(["a"]))
        torch.testing.assert_close(encoder(alone)[0], tokens[0])
        torch.testing.assert_close(encoder(batch.rows(torch.tensor([1, 0]))), tokens[[1, 0]])
        other = encoder(vocabulary.encode(table(names=["a"], smiles=["CCCO"], minutes=[5.0])))
    assert not torch.allclose(other[0, 0], tokens[0, 0])
    torch.testing.assert_close(other[0, 1], tokens[0, 1])
    with pytest.raises(Exception, match="needs a column smiles"):
        TreatmentVocabulary.learn(MEASURED, **learned)


def test_new_treatments_through_the_commands(tmp_path, capsys):
    made = tmp_path / "made"
    words = ("--genes", 60, "--treatments", 4, "--length", 80, "--seed", 0)
    assert bioattn("simulate", "promoters", "-o", made, *words) == 0
    rows = ("treatment1\tx\t5", "treatment2\tx\t10", "treatment3\ty\t10", "treatment4\tz\t60\n")
    (tmp_path / "t.tsv").write_text("\n".join(["treatment\tagent\tminutes", *rows]))
    fasta, dataset, model = (tmp_path / name for name in ("p.fa", "x.dataset.h5", "model"))
    common = ("--upstream", 80, "--downstream", 0, "-o", fasta)
    assert bioattn("prepare", "promoters", made / "genome.fa", made / "annotation.gff3", *common) == 0
    words = (
        "--treatment-table",
        tmp_path / "t.tsv",
        "--split",
        "treatment",
        "--holdout",
        "test=treatment:treatment4",
    )
    assert bioattn("prepare", "dataset", fasta, made / "responses.tsv", *words, "-o", dataset) == 0
    words = ("--epochs", 1, "--treatment-encoder", "kernel", "-o", model)
    assert bioattn("train", "promoter", dataset, *words) == 0
    assert "test treatments" in capsys.readouterr().out
    (tmp_path / "new.tsv").write_text("treatment\tagent\tminutes\nlike3\ty\t10\ntreatment2\tx\t10\n")
    weights = tmp_path / "weights.tsv"
    asked = ("--treatment-table", tmp_path / "new.tsv", "--treatment-weights", weights)
    assert bioattn("run", "promoter", model, fasta, "-o", tmp_path / "p.tsv", *asked) == 0
    found = pd.read_csv(weights, sep="\t", index_col=0)
    assert found.columns.tolist() == ["treatment1", "treatment2", "treatment3"]
    assert found.loc["treatment2"].tolist() == [0, 1, 0]
    assert found.loc["like3"].idxmax() == "treatment3"
    assert f"like3: {found.loc['like3'].max():.2f} treatment3" in capsys.readouterr().err
    predicted = pd.read_csv(tmp_path / "p.tsv", sep="\t", index_col=0)
    assert predicted.columns.tolist() == ["like3", "treatment2"]
    assert bioattn("run", "promoter", model, fasta, "-o", "-", "--treatment", "nobody") == 1
    assert bioattn("validate", model) == 0
    concat = ("--conditioning", "concat", "--treatment-encoder", "kernel", "-o", tmp_path / "m2")
    assert bioattn("train", "promoter", dataset, *concat) == 2
