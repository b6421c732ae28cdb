"""Phyloformer beside the original's numbers, plain loops and scikit-bio, and its command."""

import json
from io import StringIO
from itertools import combinations
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from Bio import Phylo

from bioattn.attention.capture import capture
from bioattn.attention.site import Tile
from bioattn.models.phyloformer.family import PhyloformerConfig
from bioattn.models.phyloformer.model import LinearAttention, phyloformer_site, read_parameters
from bioattn.models.phyloformer.trees import balanced_minimum_evolution, neighbour_joining
from tests.making import bioattn
from tests.result_files import Heard

DATA = Path(__file__).parents[3] / "data" / "phyloformer"
PARAMETERS, ALIGNMENT = DATA / "parameters.ckpt", DATA / "alignment.fa"


def relative(found, wanted):
    """The largest difference, in units of the largest value."""
    return np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max()


@pytest.mark.parametrize("name", ["tiny", "wide"])
@pytest.mark.parametrize("tile", [1, 1 << 18])
def test_distances_and_keys_are_those_of_the_original(name, tile, shared, tmp_path, monkeypatch):
    monkeypatch.setattr("bioattn.models.phyloformer.model.TILE_ELEMENTS", tile)
    golden = shared / "golden" / "phyloformer"
    parameters = np.load(golden / f"{name}_phyloformer_params.npz")
    wanted = np.load(golden / f"{name}_phyloformer.npz")
    torch.save({key: torch.from_numpy(parameters[key]) for key in parameters}, tmp_path / "x.ckpt")
    model = read_parameters(tmp_path / "x.ckpt")
    kept = Heard()
    with torch.inference_mode(), capture(["*"], kept):
        distances = model(torch.from_numpy(wanted["in/alignment"]).long())
    assert relative(distances, wanted["out/distance"]) < 1e-5
    for block in range(model.config.num_blocks):
        over_sites = torch.cat(kept.by_site[f"phyloformer.{block:02d}.over_sites"])
        assert relative(over_sites.permute(0, 2, 1), wanted[f"attn/block{block}_row_key"]) < 1e-5
        (over_pairs,) = kept.by_site[f"phyloformer.{block:02d}.over_pairs"]
        assert relative(over_pairs.permute(2, 0, 1), wanted[f"attn/block{block}_col_key"]) < 1e-5


def test_attention_is_a_plain_loop_over_heads_queries_and_keys():
    torch.manual_seed(0)
    layer = LinearAttention(
        PhyloformerConfig(num_heads=3, channels=12), phyloformer_site(0, "sites", 3)
    ).double()
    x = torch.randn(1, 5, 12, dtype=torch.float64)
    with torch.no_grad():
        found = layer.add_over_sites(torch.zeros_like(x), x, Tile("pair", 0, 1))[0]
        keys, queries, values = layer.keys(x)[0], layer.queries(x)[0], layer.project_value(x)[0]
        attended = torch.zeros(5, 12, dtype=torch.float64)
        for head in range(3):
            own = slice(4 * head, 4 * head + 4)
            for query in range(5):
                for key in range(5):
                    weight = keys[key, head] / keys[:, head].sum()
                    scale = queries[query, head] / queries[:, head].mean()
                    attended[query, own] += scale * weight * values[key, own]
        torch.testing.assert_close(found, layer.project_output(attended))


def leaf_distances(newick, names):
    """The sum of branch lengths between all pairs of leaves, by Biopython."""
    tree = Phylo.read(StringIO(newick), "newick")
    return [tree.distance(first, second) for first, second in combinations(names, 2)]


@pytest.mark.parametrize("method", [neighbour_joining, balanced_minimum_evolution])
@pytest.mark.parametrize("number", [2, 3, 4, 9])
def test_trees_give_back_the_distances_of_a_tree(method, number):
    names = [f"a b{i}" if i == 1 else f"x_{i}" for i in range(number)]
    rng = np.random.default_rng(number)
    nodes = [(name, {name: 0.0}) for name in names]
    truth = np.zeros((number, number))
    while len(nodes) > 1:  # joins two clades at random, with branches of random length
        (_, first), (_, second) = (nodes.pop(rng.integers(len(nodes))) for _ in range(2))
        left, right = rng.uniform(0.05, 1, 2)
        first = {name: far + left for name, far in first.items()}
        second = {name: far + right for name, far in second.items()}
        for one, far in first.items():
            for other, further in second.items():
                i, j = names.index(one), names.index(other)
                truth[i, j] = truth[j, i] = far + further
        nodes.append(("", first | second))
    np.testing.assert_allclose(
        leaf_distances(method(names, truth), names), truth[np.triu_indices(number, 1)], rtol=1e-5
    )


def test_command_writes_distances_trees_and_attention(tmp_path):
    output, attention = tmp_path / "out", tmp_path / "attention.h5"
    bioattn(
        "run", "phyloformer", ALIGNMENT, "--parameters", PARAMETERS, "-o", output, "--attention", attention
    )
    distances = pd.read_csv(output / "distances.tsv", sep="\t", index_col=0)
    names = [f"protein{number}" for number in range(1, 9)]
    assert list(distances.index) == list(distances.columns) == names
    codes = {letter: place for place, letter in enumerate("ARNDCQEGHILKMFPSTWYVX-")}
    rows = [line for line in ALIGNMENT.read_text().splitlines() if not line.startswith(">")]
    model = read_parameters(PARAMETERS)
    with torch.no_grad():
        wanted = model(torch.tensor([[codes[letter] for letter in row] for row in rows]))
    np.testing.assert_allclose(distances.to_numpy()[np.triu_indices(8, 1)], wanted, rtol=1e-5)
    for tree in ("nj.nwk", "bme.nwk"):
        leaves = Phylo.read(output / tree, "newick").get_terminals()
        assert sorted(leaf.name for leaf in leaves) == names
    with h5py.File(attention) as file:
        for site, shape in (("over_sites", (28, 2, len(rows[0]))), ("over_pairs", (len(rows[0]), 2, 28))):
            weights = file[f"sites/phyloformer.01.{site}/s0000000/weights"][:]
            assert weights.shape == shape
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        assert file["samples/sequence_pairs/s0000000"].asstr()[1] == "protein1|protein3"
    bioattn("validate", output, attention, PARAMETERS)
    again = tmp_path / "again"
    bioattn("run", "phyloformer", ALIGNMENT, "--parameters", PARAMETERS, "-o", again)
    for name in ("distances.tsv", "nj.nwk", "bme.nwk"):
        assert (output / name).read_bytes() == (again / name).read_bytes()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (">a\nACDEFGHIKL\n", "holds one sequence; distances need at least 2"),
        (">a\nACDEFGHIKL\n>a\nACDEFGHIKV\n", "rows 1 and 2 are both called 'a'"),
        (">a\nACGTACGTACGT\n>b\nACGTACGTACGA\n", "an alignment of DNA or RNA"),
        (">a\nACDEFGHIKL\n>b\nACDEFGHIKV\n>c\n--XX------\n", "row 3, c, holds gaps and unknown letters only"),
    ],
)
def test_alignments_that_have_no_tree_are_refused(text, sentence, tmp_path, capsys):
    (tmp_path / "x.fa").write_text(text)
    code = bioattn(
        "run", "phyloformer", tmp_path / "x.fa", "--parameters", PARAMETERS, "-o", tmp_path / "out"
    )
    assert code == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_several_is_described_and_validated(tmp_path, capsys):
    (tmp_path / "msa").mkdir()
    for name in ("x", "y", "z"):
        (tmp_path / "msa" / f"{name}.fa").write_bytes(ALIGNMENT.read_bytes())
    run = ("run", "phyloformer", tmp_path / "msa", "--parameters", PARAMETERS)
    for number in (1, 2):
        assert bioattn(*run, "-o", tmp_path / "out", "--shard", f"{number}/2") == 0
    capsys.readouterr()
    assert bioattn("inspect", tmp_path / "out") == 0
    shown = capsys.readouterr().out
    assert "folder of distances and trees\n  phylogenies: 3\n  alignments: x, y, z" in shown
    assert bioattn("validate", tmp_path / "out") == 0
    (tmp_path / "out" / "y" / "phylogeny.json").write_text("{}")
    assert bioattn("validate", tmp_path / "out") == 1
    assert "does not describe distances and trees" in capsys.readouterr().out


def test_odd_letters_count_as_unknown(tmp_path):
    for name, letter in (("odd", "B"), ("unknown", "X")):
        (tmp_path / f"{name}.fa").write_text(f">a\nACDEFGHI{letter}\n>b\nACDEFGHIK\n>c\nACDEYGHIK\n")
        bioattn(
            "run", "phyloformer", tmp_path / f"{name}.fa", "--parameters", PARAMETERS, "-o", tmp_path / name
        )
    odd, unknown = (tmp_path / name / "distances.tsv" for name in ("odd", "unknown"))
    assert odd.read_bytes() == unknown.read_bytes()


def test_too_many_pairs_are_refused(tmp_path, monkeypatch, capsys):
    """Passes over 100 to 300 sequences took 1.2 to 2.0, mostly 1.5, times pairs × sites × channels numbers."""
    rows = [line for line in ALIGNMENT.read_text().splitlines() if not line.startswith(">")]
    numbers = len(list(combinations(rows, 2))) * len(rows[0]) * read_parameters(PARAMETERS).config.channels
    words = ("run", "phyloformer", ALIGNMENT, "--parameters", PARAMETERS, "-o", tmp_path / "out")
    for copies, code in ((1.6, 1), (1.8, 0)):
        free = int(copies * 4 * numbers)
        monkeypatch.setattr("bioattn.models.phyloformer.run.free_memory", lambda free=free: free)
        assert bioattn(*words) == code
        assert ("28 pairs of sequences" in capsys.readouterr().err) == code


def test_gaps_are_warned_of(tmp_path, capsys):
    (tmp_path / "x.fa").write_text(">a\nACDEFGHIK\n>b\nAC--FGHIK\n")
    bioattn("run", "phyloformer", tmp_path / "x.fa", "--parameters", PARAMETERS, "-o", tmp_path / "out")
    assert "11% of the cells are gaps" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "phylogeny.json").read_text())["gap_share"] == round(2 / 18, 6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.pop("model.pwFNN.0.bias"), "the array project_distance.bias is missing"),
        (lambda t: t.update({"model.more": torch.zeros(2)}), "the array more is none of Phyloformer's"),
        (lambda t: t["model.pwFNN.0.bias"].fill_(torch.nan), "project_distance.bias holds NaN"),
        (
            lambda t: t.update({"model.pwFNN.0.bias": torch.zeros(3)}),
            "has shape (3,), beside the others (1,)",
        ),
    ],
)
def test_wrong_parameters_are_named(change, sentence, tmp_path, capsys):
    content = torch.load(PARAMETERS, weights_only=True)
    change(content["state_dict"])
    torch.save(content, tmp_path / "x.ckpt")
    code = bioattn(
        "run", "phyloformer", ALIGNMENT, "--parameters", tmp_path / "x.ckpt", "-o", tmp_path / "out"
    )
    assert code == 1
    assert sentence in capsys.readouterr().err
