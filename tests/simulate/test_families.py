"""Simulated families: the sampler against exact odds, planted contacts found again, files that agree."""

import numpy as np
import pytest

from bioattn.alignments import couplings
from bioattn.errors import SettingsError
from bioattn.formats.alignment_file import read_alignment
from bioattn.simulate.families import (
    GAP,
    FamilySettings,
    PottsModel,
    contact_pairs,
    generate_fold,
    potts_model,
    sample_family,
)
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.structures.chain import read_chain
from bioattn.structures.contacts import contacts
from tests.making import bioattn


def test_sampler_reaches_the_model_s_distribution():
    random = np.random.default_rng(0)
    fields, coupling = random.normal(size=(2, 20)), random.normal(size=(1, 20, 20))
    model = PottsModel(fields, np.array([[0, 1]]), coupling)
    settings = FamilySettings(depth=40_000, generations=1, sweeps=20, tips=1, gaps=0)
    states = sample_family(model, settings, random)
    wanted = np.exp(fields[0][:, None] + fields[1] + coupling[0])
    wanted /= wanted.sum()
    found = np.zeros((20, 20))
    np.add.at(found, (states[:, 0], states[:, 1]), 1 / len(states))
    assert np.abs(found - wanted).max() < 5 * np.sqrt(wanted.max() / len(states))


def test_shared_ancestry_makes_rows_alike():
    def identity(tips):
        random = np.random.default_rng(2)
        fold = generate_fold(random, max_length=60)
        settings = FamilySettings(depth=128, tips=tips, gaps=0, sweeps=2)
        states = sample_family(potts_model(fold.positions, settings, random), settings, random)
        return (states[:, None] == states[None]).mean()

    assert identity(0.1) > identity(1.0) + 0.05


def test_gaps_come_in_runs_and_spare_the_first_row():
    random = np.random.default_rng(4)
    fold = generate_fold(random)
    settings = FamilySettings(depth=400, gaps=0.1)
    gaps = sample_family(potts_model(fold.positions, settings, random), settings, random) == GAP
    assert not gaps[0].any()
    assert 0.03 < gaps.mean() < 0.3
    # A gap's neighbour is a gap far more often than any other cell is.
    assert gaps[:, 1:][gaps[:, :-1]].mean() > 3 * gaps.mean()


@pytest.mark.parametrize("seed", range(4))
def test_folds_are_dense_and_do_not_clash(seed):
    fold = generate_fold(np.random.default_rng(seed), min_length=50, max_length=90)
    length = len(fold.positions)
    assert 50 <= length <= 90
    assert len(fold.structure) == length
    assert set(fold.structure) <= set("HEC")
    per_residue = len(contact_pairs(fold.positions, min_separation=6)) / length
    assert 0.7 < per_residue < 4


def test_a_length_that_no_fold_has_is_refused(monkeypatch):
    monkeypatch.setattr("bioattn.simulate.families.ATTEMPTS", 20)
    with pytest.raises(SettingsError, match="cannot be met"):
        generate_fold(np.random.default_rng(0), min_length=300, max_length=310)


SMALL = ["--families", "2", "--depth", "60:80", "--length", "50:60", "-q"]


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "bioattn-records"
    }


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulate") / "families"
    assert bioattn("simulate", "msa", "-o", folder, *SMALL) == 0
    return folder


def test_files_agree(simulated):
    for path in (simulated, simulated / "simulation.json"):
        assert inspect_file(path).kind == "simulation"
        assert validate_file(path) == []
    for name in ("simulated000000", "simulated000001"):
        alignment = read_alignment(simulated / "msa" / f"{name}.a3m")
        chain = read_chain(simulated / "structure" / f"{name}.pdb")
        assert alignment.row(0) == chain.letters
        assert 60 <= alignment.num_rows <= 80
        near = contacts(chain.cb, min_separation=3)
        lines = (simulated / "contacts" / f"{name}.tsv").read_text().splitlines()[1:]
        pairs = np.array([[float(cell) for cell in line.split("\t")] for line in lines])
        i, j = pairs[:, :2].astype(int).T - 1
        listed = np.zeros_like(near)
        listed[i, j] = True
        # Coordinates are rounded in the PDB file: distances at the very edge may fall on either side.
        unsure = np.abs(pairs[:, 2] - 8) < 0.01
        assert near[i, j][~unsure].all()
        assert np.triu(near & ~listed).sum() <= unsure.sum() + 1
        assert (pairs[:, 2] < 8).all()
        assert (pairs[:, 3] > 0).all()


def test_same_seed_same_bytes_and_more_families_leave_the_first_as_they_were(simulated, tmp_path):
    again, more, other = (tmp_path / name for name in ("again", "more", "other"))
    assert bioattn("simulate", "msa", "-o", again, *SMALL) == 0
    assert tree(again) == tree(simulated)
    assert bioattn("simulate", "msa", "-o", more, *SMALL, "--families", "3") == 0
    first = "msa/simulated000001.a3m"
    assert tree(more)[first] == tree(simulated)[first]
    assert bioattn("simulate", "msa", "-o", other, *SMALL, "--seed", "1") == 0
    assert tree(other)[first] != tree(simulated)[first]


def test_given_folds_are_planted(simulated, tmp_path):
    fold = simulated / "structure" / "simulated000001.pdb"
    output = tmp_path / "families"
    options = ["--families", "1", "--depth", "1200", "--strength", "1", "-q"]
    assert bioattn("simulate", "msa", fold, "-o", output, *options) == 0
    planted = contacts(read_chain(fold).cb)
    alignment = read_alignment(output / "msa" / "simulated000000.a3m")
    letters = {letter: code for code, letter in enumerate(b"ARNDCQEGHILKMFPSTWYV")} | {ord("-"): 21}
    codes = np.vectorize(letters.get)(alignment.residues)
    scores = couplings.average_product_correction(
        couplings.mean_field_norms(*couplings.pair_frequencies(couplings.column_states(codes)))
    )
    i, j = np.triu_indices(len(scores), 6)
    best = np.argsort(-scores[i, j])[: len(scores) // 5]
    assert planted[i[best], j[best]].mean() > 0.7
    assert "simulated000001" in (output / "PAIRS.tsv").read_text().splitlines()[1].split("\t")[4]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--depth", "90:80"], 2, "--depth 90:80: write N or N:M"),
        (["missing.pdb"], 1, "missing.pdb: no such file"),
        (["two.pdb"], 1, "name the one that is meant, as two.pdb:CHAIN"),
        (["two.pdb:A"], 1, "two.pdb: has 1 residue; a fold needs"),
    ],
)
def test_bad_input(tmp_path, capsys, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    line = "ATOM      1  CA  ALA {}   1       0.000   0.000   0.000  1.00  0.00           C\n"
    (tmp_path / "two.pdb").write_text(line.format("A") + line.format("B"))
    output = tmp_path / "families"
    assert bioattn("simulate", "msa", *arguments, "-o", output) == code
    assert words in capsys.readouterr().err
    assert not output.exists()
