"""Layers that read molecules, and Tanimoto models, against plain loops; what must not change them."""

from collections import Counter

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.models.molecule.family import MoleculeModelConfig
from bioattn.models.molecule.model import MoleculeModel, molecule_batch
from bioattn.models.molecule_layers import graph_batch
from bioattn.models.molecule_settings import MoleculeEncoding
from bioattn.molecules.graphs import ATOM_FEATURES, BOND_CODES, Collector, Molecule
from bioattn.molecules.similarity import (
    NOISES,
    WIDTHS,
    NadarayaWatson,
    TanimotoProcess,
    packed_bits,
    tanimoto,
)
from tests.result_files import Heard

SMALL = {
    "gaussian_process": False,
    "radius": 2,
    "channels": 8,
    "slots": 12,
    "num_heads": 2,
    "dropout": 0.0,
    "tasks": ("a", "b"),
}


def random_molecule(generator, atoms):
    """A tree with one ring; features within their ranges, neighbours counted."""
    features = np.stack([generator.integers(size, size=atoms) for size in ATOM_FEATURES.values()], axis=1)
    pairs = [(int(generator.integers(each)), each) for each in range(1, atoms)]
    pairs += [(0, atoms - 1)] if atoms > 2 and (0, atoms - 1) not in pairs else []
    bonds = np.array([(*pair, generator.integers(BOND_CODES)) for pair in pairs], np.uint16).reshape(-1, 3)
    return Molecule("", features.astype(np.uint8), bonds, generator.bytes(256), "", ())


def collected(*molecules):
    collector = Collector()
    for number, each in enumerate(molecules):
        collector.add(f"m{number}", each)
    return collector.molecules()


def shuffled(molecule, order):
    """The same molecule with atom `order[i]` at place i."""
    place = np.argsort(order)
    bonds = molecule.bonds.copy()
    bonds[:, :2] = place[bonds[:, :2].astype(int)]
    return molecule._replace(atoms=molecule.atoms[order], bonds=bonds)


def model_of(encoder, **changes):
    torch.manual_seed(1)
    return MoleculeModel(MoleculeModelConfig(**{**SMALL, "encoder": encoder, **changes})).eval()


def batch_of(molecules, rows):
    return molecule_batch(molecules, rows, torch.device("cpu"))


def test_a_fingerprint_is_that_of_the_paper():
    """Duvenaud et al. 2015, algorithm 2, atom by atom."""
    generator = np.random.default_rng(0)
    molecules = [random_molecule(generator, atoms) for atoms in (7, 1, 4)]
    model = model_of(MoleculeEncoding.FINGERPRINT)
    with torch.no_grad():
        writes_BRAS = model.encoder(graph_batch(collected(*molecules), range(3)))
        encoder = model.encoder
        for number, molecule in enumerate(molecules):
            states = [
                sum(
                    embed.weight[value]
                    for embed, value in zip(encoder.embed.features, atom.tolist(), strict=True)
                )
                for atom in molecule.atoms
            ]
            for radius in range(3):
                for atom, state in enumerate(states):
                    slots = torch.softmax(encoder.slots_RSC[radius] @ state / 8**0.5, 0)
                    torch.testing.assert_close(writes_BRAS[number, radius, atom], slots)
                if radius == 2:
                    break
                changed = []
                for atom, state in enumerate(states):
                    summed, degree = state, 0
                    for first, second, code in molecule.bonds.astype(int).tolist():
                        if atom in (first, second):
                            summed = summed + states[second if atom == first else first]
                            summed = summed + encoder.bonds[radius].weight[:, code]
                            degree += 1
                    mixed = summed @ encoder.by_degree_RGCC[radius, min(degree, 5)]
                    changed.append(torch.relu(encoder.norms[radius](mixed)))
                states = changed
        assert not writes_BRAS[1, :, 1:].any()  # padding writes nothing


@pytest.mark.parametrize("encoder", list(MoleculeEncoding))
def test_order_and_padding_change_nothing_and_contributions_add_up(encoder):
    generator = np.random.default_rng(1)
    molecule = random_molecule(generator, 9)
    order = generator.permutation(9)
    both = collected(molecule, shuffled(molecule, order), random_molecule(generator, 14))
    model, heard = model_of(encoder, hidden=0), Heard()
    with torch.no_grad(), capture(["*"], heard):
        lost_BTRA = model.contributions(batch_of(both, range(3)))
    with torch.no_grad():
        answer_BT = model(batch_of(both, range(3)))
    with torch.no_grad():
        alone_T = model(batch_of(both, [0]))[0]
    torch.testing.assert_close(answer_BT[0], alone_T)
    torch.testing.assert_close(answer_BT[0], answer_BT[1])
    torch.testing.assert_close(lost_BTRA[1, ..., :9], lost_BTRA[0][..., order])
    torch.testing.assert_close(lost_BTRA.sum((2, 3)) + model.linear.bias, answer_BT)
    assert not lost_BTRA[0, ..., 9:].any()
    if encoder is MoleculeEncoding.ATTENTION:
        near = np.eye(9, dtype=bool)
        first, second = molecule.bonds[:, :2].T.astype(int)
        near[first, second] = near[second, first] = True
        weights_HAA = heard.by_site["molecule.bonds.1"][0][0, :, :9, :9]
        assert (weights_HAA[:, ~near] == 0).all()
        assert (weights_HAA[:, near] > 0).all()
        np.testing.assert_allclose(heard.by_site["molecule.atoms"][0][0].sum(-1), 1, atol=1e-6)
        assert not heard.by_site["molecule.atoms"][0][0, ..., 9:].any()
    else:
        np.testing.assert_allclose(heard.by_site["molecule.slots"][0].sum(-1), 1, atol=1e-6)


def test_contributions_with_a_hidden_layer_are_differences():
    model = model_of(MoleculeEncoding.FINGERPRINT, hidden=5)
    batch = batch_of(collected(random_molecule(np.random.default_rng(2), 6)), [0])
    with torch.no_grad():
        answer_BT, lost_BTRA = model(batch), model.contributions(batch)
        writes_BRAS = model.encoder(batch.graphs)
        writes_BRAS[0, 1, 3] = 0
        torch.testing.assert_close(
            lost_BTRA[0, :, 1, 3], (answer_BT - model.read(writes_BRAS.sum((1, 2))))[0]
        )


@pytest.fixture(scope="module")
def measured():
    """Fingerprints of which near ones have near values, and a task with missing values."""
    generator = np.random.default_rng(3)
    bits = np.packbits(generator.random((40, 256 * 8)) < 0.03, axis=1)
    bits[20:] = bits[:20] | np.packbits(generator.random((20, 256 * 8)) < 0.005, axis=1)
    targets = np.tile(generator.standard_normal((20, 3)), (2, 1))
    targets[generator.random(40) < 0.3, 2] = np.nan
    return bits, targets


def test_tanimoto_models_are_those_of_plain_loops(measured):
    bits, targets = measured
    known, asked = bits[:30], bits[30:]
    sets = [set(np.flatnonzero(np.unpackbits(each))) for each in bits]
    similar = np.array([[len(a & b) / len(a | b) for b in sets[:30]] for a in sets[30:]])
    np.testing.assert_allclose(tanimoto(asked, known), similar, atol=1e-6)
    smoother = NadarayaWatson(known, targets[:30], 12.0)
    process = TanimotoProcess(known, targets[:30])
    for task in range(3):
        rows = np.isfinite(targets[:30, task])
        weights = np.exp(12 * similar[:, rows])
        means = (weights * targets[:30, task][rows]).sum(1) / weights.sum(1)
        np.testing.assert_allclose(smoother.predict(asked)[:, task], means)
        kernel = tanimoto(known, known)[np.ix_(rows, rows)]
        values = targets[:30, task][rows] - targets[:30, task][rows].mean()
        found = [
            similar[:, rows] @ np.linalg.solve(kernel + noise * np.eye(rows.sum()), values)
            for noise in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        ]
        answers = process.predict(asked)[:, task] - targets[:30, task][rows].mean()
        assert min(np.abs(each - answers).max() for each in found) < 1e-6
    errors = []
    for width in WIDTHS:  # leave one out
        left_out = [
            NadarayaWatson(np.delete(known, row, 0), np.delete(targets[:30], row, 0), width).predict(
                known[row, None]
            )
            for row in range(30)
        ]
        errors.append(np.nanmean(np.square(np.concatenate(left_out) - targets[:30])))
    assert NadarayaWatson(known, targets[:30]).width == WIDTHS[np.argmin(errors)]


def counts_of(molecule):
    """How often each atom with what is one bond away occurs, by the features themselves."""
    kinds = [tuple(map(int, atom[:-1])) for atom in molecule.atoms]
    around = [[] for _ in kinds]
    for first, second, code in molecule.bonds.astype(int).tolist():
        around[first].append((kinds[second], code))
        around[second].append((kinds[first], code))
    return Counter([*kinds, *((kind, tuple(sorted(near))) for kind, near in zip(kinds, around, strict=True))])


def min_max(first, second):
    both = first.keys() | second.keys()
    return sum(min(first[k], second[k]) for k in both) / sum(max(first[k], second[k]) for k in both)


@pytest.fixture(scope="module")
def process():
    """Chains of carbons and nitrogens, whose atoms are often alike, and a fitted Gaussian process."""
    generator = np.random.default_rng(6)
    alike = []
    for _ in range(16):
        molecule = random_molecule(generator, int(generator.integers(2, 12)))
        plain = np.zeros_like(molecule.atoms)
        plain[:, 0] = generator.integers(1, 3, len(plain))
        alike.append(molecule._replace(atoms=plain, bonds=molecule.bonds * [1, 1, 0]))
    targets_NT = generator.normal(size=(12, 2))
    targets_NT[3, 0] = np.nan
    fitted = TanimotoProcess(packed_bits(collected(*alike), range(12)), targets_NT)
    model = model_of(MoleculeEncoding.FINGERPRINT, gaussian_process=True, measured=12)
    model.process.packed_bits.copy_(torch.from_numpy(fitted.fingerprints))
    model.process.weights_NT.copy_(torch.from_numpy(fitted.weights_NT))
    model.process.mean_T.copy_(torch.from_numpy(fitted.mean_T))
    return alike, targets_NT, fitted, model


def test_the_process_compares_counts_of_substructures(process):
    alike, _, fitted, model = process
    counts = [counts_of(each) for each in alike]
    assert max(max(each.values()) for each in counts) > 3
    similar = np.array([[min_max(asked, known) for known in counts[:12]] for asked in counts[12:]])
    wanted = fitted.mean_T + similar @ fitted.weights_NT
    with torch.no_grad():
        answer_BT = model(batch_of(collected(*alike), range(12, 16)))
    np.testing.assert_allclose(answer_BT.numpy(), wanted, rtol=1e-4)


def test_an_atom_contributes_what_its_substructures_do(process):
    alike, _, fitted, model = process
    with torch.no_grad():
        batch = batch_of(collected(*alike), range(12, 16))
        answer_BT, lost_BTRA = model(batch), model.contributions(batch)
    known = [counts_of(each) for each in alike[:12]]
    for number, molecule in enumerate(alike[12:]):
        counts = counts_of(molecule)
        kinds = list(counts.elements())
        for atom in range(len(molecule.atoms)):
            fewer = counts - Counter([tuple(map(int, molecule.atoms[atom][:-1]))])
            assert fewer.total() == len(kinds) - 1
            answer = fitted.mean_T + np.array([min_max(fewer, each) for each in known]) @ fitted.weights_NT
            np.testing.assert_allclose(
                lost_BTRA[number, :, 0, atom].numpy(), answer_BT[number].numpy() - answer, atol=1e-5
            )
        assert not lost_BTRA[number, ..., len(molecule.atoms) :].any()


def test_what_is_left_out_is_predicted_by_the_others(process):
    """By solving without the molecule, at the noise that all of them chose."""
    alike, targets_NT, fitted, _ = process
    counts = [counts_of(each) for each in alike[:12]]
    kernel = np.array([[min_max(one, other) for other in counts] for one in counts])
    for task in range(2):
        rows = np.flatnonzero(np.isfinite(targets_NT[:, task]))
        centred = targets_NT[rows, task] - fitted.mean_T[task]
        full = kernel[np.ix_(rows, rows)]
        noise = min(
            NOISES,
            key=lambda noise: np.abs(
                np.linalg.solve(full + noise * np.eye(len(rows)), centred) - fitted.weights_NT[rows, task]
            ).max(),
        )
        for place, row in enumerate(rows):
            others = np.arange(len(rows)) != place
            solved = np.linalg.solve(
                full[np.ix_(others, others)] + noise * np.eye(others.sum()), centred[others]
            )
            wanted = fitted.mean_T[task] + full[place, others] @ solved
            np.testing.assert_allclose(fitted.left_out_NT[row, task], wanted, rtol=1e-6)
    assert np.isnan(fitted.left_out_NT[3, 0])
