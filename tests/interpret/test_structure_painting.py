"""Attention painted on structures: values by plain loops, read back by Biopython; chains, insertions, gaps."""

import json
import re

import numpy as np
import pytest
from Bio.Data.IUPACData import protein_letters_1to3
from Bio.PDB.PDBParser import PDBParser

from bioattn.formats.structure_file import ResidueKey
from bioattn.interpret.alignment_maps import SCRIPTS, ResidueLine, paint_structure
from bioattn.interpret.choices import ExportStructure, ScriptFormat
from bioattn.models.evoformer.sites import alignment_site
from bioattn.models.language.config import Shape
from bioattn.sequences.choices import Alphabet
from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.models.language.made_models import make_model, saved
from tests.result_files import aligned, write_alignments

QUERY = "MKTAYIAKQRQISFVKSHFS"
COLUMNS = tuple(place for place in range(22) if place not in (4, 9))
"""Of the alignment's 22 columns those that the model saw."""
HEADS, ROWS = 3, 2
SITES = [
    *(alignment_site("evoformer", block, "msa_row", HEADS) for block in (0, 1)),
    alignment_site("evoformer", 0, "msa_column", HEADS),
]


@pytest.fixture(scope="module")
def weights():
    """(head, query, key) by site."""
    random = np.random.default_rng(3)
    arrays = {site.name: np.exp(2 * random.normal(size=(HEADS, 20, 20))) for site in SITES[:2]}
    return {
        name: (values / values.sum(-1, keepdims=True)).astype(np.float32) for name, values in arrays.items()
    }


@pytest.fixture(scope="module")
def attention(tmp_path_factory, weights):
    path = tmp_path_factory.mktemp("painting") / "attention.h5"

    def make(site, shape, _number):
        return {"weights": weights.get(site.name, np.full(shape, 1 / ROWS, dtype=np.float32))}

    write_alignments(path, SITES, [aligned("a", QUERY, ROWS, COLUMNS, 22)], make)
    return path


def atom(serial, letter, chain, number, code=" "):
    name = protein_letters_1to3[letter].upper()
    return (
        f"ATOM  {serial:>5}  CA  {name} {chain}{number:>4}{code}   "
        f"{serial:8.3f}{0:8.3f}{0:8.3f}{1:6.2f}{50:6.2f}           C  \n"
    )


@pytest.fixture
def structure(tmp_path):
    """Chain A: a tag of two residues, then the target without its last four, numbered from 50, one 52A; chain B:
    something else."""
    lines = [atom(1, "G", "A", 48), atom(2, "H", "A", 49)]
    numbers = [(50, " "), (51, " "), (52, " "), (52, "A"), *((number, " ") for number in range(53, 65))]
    for serial, (letter, (number, code)) in enumerate(zip(QUERY[:16], numbers, strict=True), start=3):
        lines.append(atom(serial, letter, "A", number, code))
    lines += ["TER\n", *(atom(30 + place, "W", "B", place + 1) for place in range(5)), "TER\nEND\n"]
    path = tmp_path / "s.pdb"
    path.write_text("".join(lines))
    return path


def painted(path):
    """B-factors by chain, number and insertion code."""
    (model,) = PDBParser(QUIET=True).get_structure("x", str(path))
    return {
        (chain.id, residue.id[1], residue.id[2].strip()): residue["CA"].bfactor
        for chain in model
        for residue in chain
    }


def place_of(number, code=""):
    """Place in the target of a residue of chain A."""
    return number - 50 + (1 if (number, code) > (52, "") else 0)


@pytest.mark.parametrize("looking", [None, "57", "52A"])
def test_values_by_plain_loops(attention, weights, structure, tmp_path, looking):
    out = tmp_path / "out.pdb"
    given = ExportStructure(
        attention=attention, structure=structure, output=out, chain="A", heads=(0, 2), query_residue=looking
    )
    report = paint_structure(given, None)
    received = np.zeros(20)
    for key in range(20):
        total, number = 0.0, 0
        for site in SITES[:2]:
            for head in (0, 2):
                for query in range(20):
                    if looking is None or query == {"57": place_of(57), "52A": 3}[looking]:
                        total += float(weights[site.name][head, query, key])
                        number += 1
        received[key] = total / number * 20
    low, high = received[:16].min(), received[:16].max()
    assert report.figures["minimum"] == pytest.approx(low, abs=1e-6)
    assert report.figures["maximum"] == pytest.approx(high, abs=1e-6)
    assert "16 of 18 residues have a column" in report.sentences[0]
    found = painted(out)
    for (chain, number, code), value in found.items():
        if chain == "B" or number < 50:
            assert value == -1
        else:
            expected = 100 * (received[place_of(number, code)] - low) / (high - low)
            assert value == pytest.approx(expected, abs=0.006)
    assert sorted(found.values())[-1] == 100


def test_maps_of_a_language_model_by_plain_loops(structure, tmp_path):
    """The mean over layers and heads of what residues receive from residues, special tokens left out."""
    saved(tmp_path / "model", make_model(Shape.ENCODER, alphabet=Alphabet.PROTEIN))
    (tmp_path / "p.fa").write_text(f">p\n{QUERY}\n>other\nMKV\n")
    maps, out = tmp_path / "maps.h5", tmp_path / "out.pdb"
    assert bioattn("export", "attention", tmp_path / "model", tmp_path / "p.fa", "-o", maps) == 0
    given = ExportStructure(attention=maps, structure=structure, output=out, sample="p", chain="A")
    paint_structure(given, None)
    with open_attention(maps) as attention:
        weights = [attention.weights(f"language.encoder.{layer}", sample="p") for layer in (0, 1)]
    received = np.mean(weights, axis=(0, 1))[1:-1, 1:-1].mean(axis=0)[:16]
    for (chain, number, code), value in painted(out).items():
        if chain == "A" and number >= 50:
            share = (received[place_of(number, code)] - received.min()) / np.ptp(received)
            assert value == pytest.approx(100 * share, abs=0.006)


@pytest.mark.parametrize("looking", [None, "52A"])
def test_lines_of_the_scripts_by_plain_loops(attention, weights, structure, tmp_path, looking):
    """Number and insertion code of both ends, the pair of most attention first."""
    words = [] if looking is None else ["--query-residue", looking]
    command = ["export", "structure", attention, structure, "-o", tmp_path / "out.pdb", "--chain", "A"]
    assert bioattn(*command, "--format", "cxc", "--format", "pml", *words) == 0
    names = ["50", "51", "52", "52A", *map(str, range(53, 65))]
    mean = sum(weights[site.name][head] for site in SITES[:2] for head in range(HEADS)) / (2 * HEADS)
    pairs = {}
    for i in range(16):
        for j in range(i + 6, 16):
            if looking is None:
                pairs[names[i], names[j]] = (mean[i, j] + mean[j, i]) / 2
            elif 3 in (i, j):
                pairs[names[i], names[j]] = mean[3, i + j - 3]
    best = sorted(pairs, key=pairs.get, reverse=True)[:20]
    shares = [pairs[pair] / pairs[best[0]] for pair in best]
    chimerax = (tmp_path / "out.cxc").read_text().splitlines()
    assert chimerax[0] == 'open "out.pdb" maxModels 1'
    line = r"pbond #1/A:(\w+)@CA #1/A:(\w+)@CA color #D55E00 radius (\S+) dashes 0 name attention"
    found = [re.fullmatch(line, text).groups() for text in chimerax if text.startswith("pbond")]
    assert [(first, second) for first, second, _ in found] == best
    np.testing.assert_allclose([float(each[2]) for each in found], 0.05 + 0.4 * np.array(shares), atol=6e-4)
    pymol = (tmp_path / "out.pml").read_text()
    assert pymol.startswith('load "out.pdb", painted\n')
    line = r"distance attention_\d+, first \(painted and chain A and resi (\w+) and name CA\), first .* resi (\w+)"
    assert re.findall(line, pymol) == best
    record = json.loads((tmp_path / "bioattn-records/out.pdb.json").read_text())
    assert len(record["outputs"]) == 3


def test_residues_that_the_programs_spell_in_their_own_way():
    ends = ResidueKey("_", -5, ""), ResidueKey("B", 7, "")
    for format in ScriptFormat:
        text = "\n".join(SCRIPTS[format]("a b.cif", [ResidueLine(*ends, 1.0)]))
        assert '"a b.cif"' in text
        first = "#1:-5@CA #1/B:7@CA " if format == "cxc" else "chain '' and resi \\-5 and name CA"
        assert first in text


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 1, "protein chains ('A', "),
        (["--chain", "B"], 1, "does not match the alignment"),
        (
            ["--chain", "A", "--query-residue", "7"],
            1,
            "has no such residue in chain A; its numbers run from 48 to 64",
        ),
        (["--chain", "A", "--query-residue", "49"], 1, "this residue of chain A has no column"),
        (["--chain", "A", "--sites", "*.msa_column"], 1, "looks from sequence to sequence"),
    ],
)
def test_bad_input_is_one_sentence(
    attention, structure, tmp_path, monkeypatch, capsys, words, code, sentence
):
    monkeypatch.chdir(tmp_path)
    assert bioattn("export", "structure", attention, structure, "-o", "out.pdb", *words) == code
    text = capsys.readouterr().err
    assert sentence in text
    assert text.startswith("bioattn: error: ")
    assert text.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.pdb"]
