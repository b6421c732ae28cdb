"""Simulated promoters: motifs stand where the truth says, in the genome too, and decide the responses."""

import csv
import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.simulate.promoters import EFFECT, simulate_promoters, simulation_settings
from bioattn.simulate.truth import CAUSAL, COLUMNS, DECOY, LONE, PlantedSite, read_truth, write_truth
from bioattn.store.inspection import validate_file
from tests.making import bioattn

COMPLEMENT = str.maketrans("ACGT", "TGCA")


@pytest.fixture(scope="module")
def standard():
    return simulate_promoters(simulation_settings("standard", genes=1500, seed=3))


@pytest.fixture(scope="module")
def hard():
    return simulate_promoters(simulation_settings("hard", genes=600, seed=3))


def on_motif_strand(window, site):
    text = window[site.start : site.end]
    return text if site.strand == "+" else text.translate(COMPLEMENT)[::-1]


@pytest.mark.parametrize("difficulty", ["standard", "hard"])
def test_motifs_stand_at_the_said_place(difficulty, request):
    simulated = request.getfixturevalue(difficulty)
    windows = dict(zip(simulated.gene_ids, map(decode, simulated.codes), strict=True))
    matrices = {motif.name: motif.probabilities for motif in simulated.motifs}
    gene_strands = {gene.gene_id: gene.strand for gene in simulated.genome.genes}
    # The letters at the sites, read on the motif's strand, have the motif's frequencies: on each strand of the
    # genome, for each strand of the motif.
    for gene_strand in "+-":
        for motif_strand in "+-":
            for name, matrix in matrices.items():
                sites = [
                    encode(on_motif_strand(windows[site.gene_id], site))
                    for site in simulated.sites
                    if site.motif == name
                    and site.strand == motif_strand
                    and gene_strands[site.gene_id] == gene_strand
                ]
                codes = np.array(sites)
                assert codes.shape[0] > 30
                assert codes.shape[1] == len(matrix)
                counted = np.stack([(codes == base).mean(axis=0) for base in range(4)], axis=1)
                deviation = np.sqrt(matrix * (1 - matrix) / len(codes)) + 0.5 / len(codes)
                assert np.all(np.abs(counted - matrix) < 5 * deviation)


def test_truth_knows_every_exact_copy(standard):
    """No consensus stands anywhere, on either strand, but where it was planted."""
    planted = {(site.gene_id, site.motif, site.start, site.strand) for site in standard.sites}
    for gene_id, codes in zip(standard.gene_ids, standard.codes, strict=True):
        window = decode(codes)
        for motif in standard.motifs:
            reverse = motif.consensus.translate(COMPLEMENT)[::-1]
            for strand, word in (("+", motif.consensus), ("-", reverse)):
                for match in re.finditer(f"(?={word})", window):
                    assert (gene_id, motif.name, match.start(), strand) in planted


@pytest.mark.parametrize("difficulty", ["standard", "hard"])
def test_sites_keep_apart_and_lie_anywhere_on_both_strands(difficulty, request):
    simulated = request.getfixturevalue(difficulty)
    length = simulated.settings.length
    previous = None
    for site in simulated.sites:
        assert 0 <= site.start < site.end <= length
        if previous is not None and previous.gene_id == site.gene_id:
            assert site.start > previous.end
        previous = site
    middles = np.array([(site.start + site.end) / 2 for site in simulated.sites]) / length
    tenths = np.bincount((middles * 10).astype(int), minlength=10) / len(middles)
    assert np.abs(tenths - 0.1).max() < 0.02
    plus = np.mean([site.strand == "+" for site in simulated.sites])
    assert abs(plus - 0.5) < 4 * 0.5 / np.sqrt(len(middles))


@pytest.mark.parametrize("difficulty", ["standard", "hard"])
def test_responses_follow_from_the_truth(difficulty, request):
    simulated = request.getfixturevalue(difficulty)
    settings = simulated.settings
    carried = {}
    for site in simulated.sites:
        carried.setdefault((site.gene_id, site.treatment), {})[site.motif] = site.role
    assert all(
        roles == {"decoy1": DECOY, "decoy2": DECOY} for (_, name), roles in carried.items() if name == ""
    )
    for column, rule in enumerate(simulated.rules):
        held = [carried.get((gene_id, rule.treatment), {}) for gene_id in simulated.gene_ids]
        responds = np.array([set(roles) == set(rule.motifs) for roles in held])
        for roles, whole in zip(held, responds, strict=True):
            assert set(roles.values()) <= ({CAUSAL} if whole else {LONE})
        assert abs(responds.mean() - 0.5) < 4 * 0.5 / np.sqrt(settings.genes)
        left = simulated.responses[:, column] - responds * rule.effect
        assert abs(rule.effect) == EFFECT
        assert abs(left.mean()) < 4 * settings.noise / np.sqrt(settings.genes)
        assert left.std() == pytest.approx(settings.noise, rel=0.15)
    assert sum(len(rule.motifs) == 2 for rule in simulated.rules) == (3 if difficulty == "hard" else 0)


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_rules_follow_from_places_in_the_sequence(task):
    """Responses worked out promoter by promoter from where the motifs stand in the text."""
    opposites = 1 if task == "regression" else 0
    counts = {"treatments": 5 + 2 * opposites, "near": 1, "far": 1, "opposites": opposites, "pairs": 1}
    chosen = {"genes": 400, "noise": 0.0, "substitution_rate": 0.0, "reach": 120, "seed": 4, "task": task}
    simulated = simulate_promoters(simulation_settings(**counts, **chosen))
    words = {motif.name: motif.consensus for motif in simulated.motifs}

    def distance(window, motif):  # of the motif's middle from the gene; none where the motif is missing
        starts = [window.find(word) for word in (words[motif], words[motif].translate(COMPLEMENT)[::-1])]
        return len(window) - (max(starts) + 4) if max(starts) >= 0 else None

    kinds = ["anywhere", "anywhere", "near", "far", *["opposite"] * 2 * opposites, "pair"]
    assert [rule.rule for rule in simulated.rules] == kinds
    assert simulated.rules[2].motifs == simulated.rules[3].motifs == ("motif1",)
    for codes, row in zip(simulated.codes, simulated.responses, strict=True):
        window = decode(codes)
        for rule, response in zip(simulated.rules, row, strict=True):
            first, *second = (distance(window, motif) for motif in rule.motifs)
            expected = 0.0
            if rule.rule == "anywhere":
                expected = rule.effect * (first is not None)
            elif rule.rule == "near":
                expected = rule.effect * (first is not None and first <= 120)
            elif rule.rule == "far":
                expected = rule.effect * (first is not None and first > 120)
            elif rule.rule == "opposite":
                expected = rule.effect * ((first is not None) - (second[0] is not None))
            elif first is not None and second[0] is not None:
                expected = rule.effect
            assert response == expected
    assert all(simulated.responses.std(axis=0) > 0.1)
    if opposites:
        assert np.array_equal(simulated.responses[:, 4], -simulated.responses[:, 5])


def test_binary_labels_are_flipped_at_the_rate():
    simulated = simulate_promoters(simulation_settings("standard", genes=3000, task="binary", noise=0.1))
    causal = {(site.gene_id, site.treatment) for site in simulated.sites if site.role == CAUSAL}
    truth = np.array([[(g, r.treatment) in causal for r in simulated.rules] for g in simulated.gene_ids])
    flipped = (simulated.responses != truth).mean()
    assert set(np.unique(simulated.responses)) == {0.0, 1.0}
    assert abs(flipped - 0.1) < 4 * np.sqrt(0.1 * 0.9 / truth.size)


def test_noise_leaves_the_sequences_alone():
    quiet, loud = (simulate_promoters(simulation_settings(genes=50, noise=noise)) for noise in (0.0, 3.0))
    assert np.array_equal(quiet.codes, loud.codes)
    assert quiet.sites == loud.sites
    assert set(np.unique(quiet.responses)) <= {0.0, EFFECT, -EFFECT}


def test_genes_are_open_reading_frames_on_both_strands_and_windows_do_not_overlap(standard):
    stops = {"TAA", "TAG", "TGA"}
    taken = {name: np.zeros(codes.size, dtype=int) for name, codes in standard.genome.chromosomes.items()}
    strands = set()
    for gene in standard.genome.genes:
        body = decode(standard.genome.chromosomes[gene.chrom][gene.start : gene.end])
        if gene.strand == "-":
            body = body.translate(COMPLEMENT)[::-1]
        codons = [body[i : i + 3] for i in range(0, len(body), 3)]
        assert len(body) % 3 == 0
        assert codons[0] == "ATG"
        assert codons[-1] in stops
        assert not stops & set(codons[:-1])
        strands.add(gene.strand)
        first, last = (gene.start - 400, gene.end) if gene.strand == "+" else (gene.start, gene.end + 400)
        assert first >= 0
        assert last <= taken[gene.chrom].size
        taken[gene.chrom][first:last] += 1
    assert strands == {"+", "-"}
    assert max(depth.max() for depth in taken.values()) == 1


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    for folder, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        arguments = ["--genes", "120", "--seed", seed, "--quiet"]
        assert bioattn("simulate", "promoters", "-o", tmp_path / folder, *arguments) == 0
    names = sorted(p.name for p in (tmp_path / "a").iterdir() if p.is_file())
    assert names == [
        "annotation.gff3",
        "genome.fa",
        "motifs.meme",
        "responses.tsv",
        "simulation.json",
        "treatments.tsv",
        "truth.tsv",
    ]
    for name in names:
        first = (tmp_path / "a" / name).read_bytes()
        assert first == (tmp_path / "b" / name).read_bytes()
        if name != "treatments.tsv":
            assert first != (tmp_path / "c" / name).read_bytes()


def test_the_command_writes_what_the_library_draws(tmp_path):
    out = tmp_path / "s"
    assert bioattn("simulate", "promoters", "-o", out, "--genes", "40", "--difficulty", "hard") == 0
    simulated = simulate_promoters(simulation_settings("hard", genes=40))
    responses = pd.read_csv(out / "responses.tsv", sep="\t", index_col=0)
    assert list(responses.index) == simulated.gene_ids
    assert np.abs(responses.to_numpy() - simulated.responses).max() <= 0.00051
    assert read_truth(out / "truth.tsv") == simulated.sites
    assert validate_file(out) == validate_file(out / "simulation.json") == []
    treatments = pd.read_csv(out / "treatments.tsv", sep="\t", index_col=0)
    assert list(treatments.index) == list(responses.columns)
    description = json.loads((out / "simulation.json").read_text())
    assert description["settings"]["length"] == 1000
    assert description["treatments"]["treatment6"]["motifs"] == ["motif6a", "motif6b"]
    assert json.loads((out.parent / "bioattn-records" / f"{out.name}.json").read_text())["inputs"] == {}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--treatments", "200", "--length", "300"], 2, "--length 300 is too short"),
        (["--pairs", "7"], 2, "--pairs is 7 but must be between 0 and 6"),
        (["--task", "binary", "--noise", "0.7"], 2, "--noise is 0.7 but must be between 0 and 0.5"),
        (["--genes", "0"], 2, ""),
    ],
)
def test_impossible_settings_are_refused(tmp_path, capsys, arguments, code, message):
    assert bioattn("simulate", "promoters", "-o", tmp_path / "s", *arguments) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_windows_of_prepare_promoters_are_the_simulated_ones(tmp_path):
    """The ordinary command on the written files gives the promoters that the truth speaks of, on both strands."""
    assert bioattn("simulate", "promoters", "-o", tmp_path / "s", "--genes", "120", "-q") == 0
    inputs = [tmp_path / "s" / "genome.fa", tmp_path / "s" / "annotation.gff3"]
    window = ["--upstream", "400", "--downstream", "0", "--flank", "15"]
    assert bioattn("prepare", "promoters", *inputs, *window, "-o", tmp_path / "p.fa", "-q") == 0
    simulated = simulate_promoters(simulation_settings(genes=120))
    promoters = {promoter.gene_id: promoter for promoter in read_promoters(tmp_path / "p.fa")}
    assert list(promoters) == simulated.gene_ids
    assert {promoter.strand for promoter in promoters.values()} == {"+", "-"}
    for gene_id, codes in zip(simulated.gene_ids, simulated.codes, strict=True):
        assert np.array_equal(promoters[gene_id].codes[15:415], codes)


NAMES = st.text(alphabet="abcXYZ019_.-", min_size=1, max_size=8)
SITES = st.builds(
    lambda gene, motif, treatment, role, start, width, strand, effect: PlantedSite(
        gene, motif, "" if role == "decoy" else treatment, role, start, start + width, strand, effect
    ),
    NAMES,
    NAMES,
    NAMES,
    st.sampled_from(["causal", "lone", "out-of-range", "decoy"]),
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.sampled_from("+-"),
    st.sampled_from([0.0, 2.0, -1.0]),
)


@given(sites=st.lists(SITES, min_size=1, max_size=20), suffix=st.sampled_from(["", ".gz"]))
def test_read_back_as_written(tmp_path, sites, suffix):
    path = tmp_path / f"truth.tsv{suffix}"
    write_truth(path, sites)
    assert read_truth(path) == sites


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("g\tm\tt\tcausal\t5\t5\t+", "start 5 is not before end 5"),
        ("g\tm\tt\tcausal\t1\tx\t+", "must be numbers"),
        ("g\tm\tt\tbait\t1\t5\t+", "role is 'bait'"),
        ("g\tm\tt", "3 cells"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    path = tmp_path / "truth.tsv"
    header = PlantedSite._fields if row.count("\t") == len(COLUMNS) else COLUMNS
    path.write_text("\t".join(header) + "\n" + row + "\n")
    with pytest.raises(FormatError, match=r"truth\.tsv:2") as caught:
        read_truth(path)
    assert message in str(caught.value)


def test_files_without_truth_are_refused(tmp_path):
    path = tmp_path / "truth.tsv"
    for text, message in (("\t".join(COLUMNS), "names no"), ("gene\tstart\n", "lacks the column 'gene_id'")):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_truth(path)


CASES = {"protein": (), "codon": ("--copies", "4"), "dna": ("--cue", "5", "--length", "80", "--copies", "3")}


@pytest.mark.parametrize("alphabet", CASES)
def test_copies_are_where_the_truth_says_and_nothing_else_comes_twice(alphabet, tmp_path):
    words = ("simulate", "language", "-o", tmp_path / "s", "--sequences", "60", "--alphabet", alphabet)
    assert bioattn(*words, *CASES[alphabet]) == 0
    word = 3 if alphabet == "codon" else 1
    cue = 5 if alphabet == "dna" else 1
    with (tmp_path / "s" / "truth.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sequences = {record.name: record.sequence for record in read_fasta(tmp_path / "s" / "sequences.fa")}
    assert len(sequences) == 60
    numbers = set()
    for name, sequence in sequences.items():
        own = [row for row in rows if row["id"] == name]
        numbers.add(len(own))
        motif = own[0]["motif"]
        assert [row["copy"] for row in own] == [str(number + 1) for number in range(len(own))]
        for row in own:
            assert sequence[int(row["start"]) : int(row["end"])] == motif
            known = row["known_from"]
            assert known == ("" if row["copy"] == "1" else str(int(row["start"]) + cue * word))
        letters = [sequence[place : place + word] for place in range(0, len(sequence), word)]
        runs = Counter(tuple(letters[place : place + cue]) for place in range(len(letters) - cue + 1))
        inside = {motif[place : place + cue * word] for place in range(0, len(motif) - cue * word + 1, word)}
        assert {"".join(run) for run, count in runs.items() if count > 1} == inside
        assert {runs[run] for run in runs if "".join(run) in inside} == {len(own)}
    assert len({row["motif"] for row in rows}) == 60
    assert numbers == set(range(2, 2 + {"protein": 1, "codon": 3, "dna": 2}[alphabet]))


def test_the_same_bytes_and_more_sequences(tmp_path):
    for name, number in (("a", "9"), ("b", "9"), ("c", "12")):
        assert bioattn("simulate", "language", "-o", tmp_path / name, "--sequences", number) == 0
    texts = [(tmp_path / name / "sequences.fa").read_text() for name in "abc"]
    assert texts[0] == texts[1]
    assert texts[2].startswith(texts[0])
    assert bioattn("inspect", tmp_path / "a") == bioattn("validate", tmp_path / "a") == 0
