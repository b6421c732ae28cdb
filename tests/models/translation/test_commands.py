"""Translation models through the commands: simulated pairs, dataset, training, outputs, scores, attention."""

import itertools
import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from Bio.Data import CodonTable
from Bio.Seq import reverse_complement, translate

from bioattn.figures.alignments import read_alignments
from bioattn.formats.fasta import read_fasta
from bioattn.models.model_folder import write_model
from bioattn.models.translation.batches import batch_of
from bioattn.models.translation.family import Architecture, PairTask, TranslationModelConfig
from bioattn.models.translation.model import Translator
from bioattn.models.translation.pairs import simulated_pair
from bioattn.models.translation.run import LoadedTranslator, load_translator
from bioattn.models.translation.search import Search, given_score
from bioattn.models.translation.search import translate as search_outputs
from bioattn.models.translation.task import AlignedCounts
from bioattn.sequences.choices import PairAlphabet
from bioattn.sequences.pairs import Pair, open_pair_dataset
from bioattn.store.reader import open_attention
from tests.making import bioattn, shaken

SETTINGS = """
[model]
channels = 16
num_heads = 1
[training]
steps = 150
steps_per_round = 75
learning_rate = 1e-2
average_decay = 0.9
"""

TURING = """
[model]
channels = 32
num_heads = 2
slots = 24
[training]
steps = 90
steps_per_round = 45
grow_every = 5
learning_rate = 8e-3
average_decay = 0.9
"""


def sequences(path):
    return {record.name: record.sequence for record in read_fasta(path)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reverse complements, and a model that has learned them."""
    folder = tmp_path_factory.mktemp("translation")
    (folder / "settings.toml").write_text(SETTINGS)
    words = ("--task", "reverse-complement", "--pairs", 400, "--longest", 10)
    assert bioattn("simulate", "translation", *words, "-o", folder / "pairs") == 0
    dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record")
    assert bioattn("prepare", "translation", folder / "pairs", *dna, "-o", folder / "x.dataset.h5") == 0
    words = ("--config", folder / "settings.toml", "-o", folder / "model")
    assert bioattn("train", "translation", folder / "x.dataset.h5", *words) == 0
    (folder / "new.fa").write_text(">a\nACGTTGCAAC\n>b\nGGGTACC\n>long\nACGTTGCATTAGGACATTACGGAT\n")
    return folder


def test_simulated_pairs_are_what_they_say(folder):
    source, target = (sequences(folder / "pairs" / name) for name in ("source.fa", "target.fa"))
    assert all(target[name] == reverse_complement(text) for name, text in source.items())
    rows = [line.split("\t") for line in (folder / "pairs" / "alignment.tsv").read_text().splitlines()[1:]]
    assert all(
        target[name][int(t) - 1] == reverse_complement(source[name][int(s) - 1]) for name, t, s in rows
    )
    assert bioattn("inspect", folder / "pairs") == 0


@pytest.mark.parametrize("task", list(PairTask))
def test_every_target_letter_has_its_origin(task):
    generator = np.random.default_rng(0)
    for length in (3, 9, 18):
        pair = simulated_pair(task, length, generator)
        from_origin = "".join(pair.source[place] for place in pair.origin)
        assert from_origin == (reverse_complement(pair.target)[::-1] if "complement" in task else pair.target)
        if task is PairTask.SORT:
            assert pair.target == "".join(sorted(pair.source))
        if task is PairTask.CASCADE:
            facts, gene = pair.source.split("?")
            regulator = dict(zip(facts[::2], facts[1::2], strict=True))
            assert pair.target == regulator[regulator[regulator[gene]]]
        if task is PairTask.RECALL:
            facts, key = pair.source.split("?")
            assert facts[facts.index(key) + 1] == pair.target


def test_outputs_are_right_also_beyond_trained_lengths(folder, capsys):
    output = folder / "out.fa"
    assert bioattn("run", "translation", folder / "model", folder / "new.fa", "-o", output) == 0
    assert "1 source of 3 longer than the 10 tokens" in capsys.readouterr().err
    wanted = {name: reverse_complement(text) for name, text in sequences(folder / "new.fa").items()}
    assert sequences(output) == wanted
    record = json.loads((folder / "model" / "training.json").read_text())
    figures = {(row["side"], row["name"]): row for row in record["evaluation"]}
    assert figures["test", "this model"]["accuracy"] > 0.98
    assert figures["test", "counts of aligned tokens"]["accuracy"] < 0.6


def test_counts_read_no_more_context_than_helps():
    """One of three codons by chance for each residue: ln 3 nats, whatever stands around it."""
    generator = np.random.default_rng(0)
    sources = generator.integers(5, 25, (150, 60))
    pairs = [Pair(source, 5 + 3 * (source - 5) + generator.integers(0, 3, 60)) for source in sources]
    counts = AlignedCounts(pairs[:100], 65, 25)
    for order, least, most in ((6, 1.3, 3), (2, 1.09, 1.15)):
        if order == 2:
            counts.choose_order(pairs[100:125])
        tokens, nats, _ = sum(counts.sums(pair) for pair in pairs[125:])
        assert counts.order == order
        assert least < nats / (tokens - 25) < most


def test_scores_of_given_outputs_are_those_of_the_search(folder):
    model, new = folder / "model", folder / "new.fa"
    assert bioattn("run", "translation", model, new, "-o", folder / "o.tsv", "--beam", 3, "-n", 3) == 0
    header, *rows = (line.split("\t") for line in (folder / "o.tsv").read_text().splitlines())
    assert header == ["id", "rank", "tokens", "log_likelihood", "score", "sequence"]
    assert [row[:2] for row in rows[:3]] == [["a", "1"], ["a", "2"], ["a", "3"]]
    (folder / "given.fa").write_text("".join(f">{row[0]}/{row[1]}\n{row[5]}\n" for row in rows))
    words = ("run", "translation", model, new, "--targets", folder / "given.fa", "-o", folder / "s.tsv")
    assert bioattn(*words) == 0
    for row, line in zip(rows, (folder / "s.tsv").read_text().splitlines()[1:], strict=True):
        name, tokens, likely, perplexity, _ = line.split("\t")
        assert name == f"{row[0]}/{row[1]}"
        assert float(likely) == pytest.approx(float(row[3]), rel=1e-4, abs=1e-5)
        assert float(perplexity) == pytest.approx(math.exp(-float(likely) / int(tokens)), rel=1e-4)


def test_a_decoder_that_reads_its_own_place_needs_no_attention(folder):
    words = ("--task", "copy", "--pairs", 200, "--shortest", 12, "--longest", 24, "-o", folder / "copies")
    assert bioattn("simulate", "translation", *words) == 0
    dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record")
    assert bioattn("prepare", "translation", folder / "copies", *dna, "-o", folder / "copies.dataset.h5") == 0
    train = ("train", "translation", folder / "copies.dataset.h5", "--config", folder / "settings.toml")
    accuracy = {}
    for name, aligned in (("with", ["-c", "model.aligned=true"]), ("without", [])):
        output = folder / f"copies-{name}"
        assert bioattn(*train, "--architecture", "recurrent", *aligned, "--steps", 50, "-o", output) == 0
        rows = json.loads((output / "training.json").read_text())["evaluation"]
        (accuracy[name],) = (
            row["accuracy"] for row in rows if row["side"] == "test" and row["name"] == "this model"
        )
    assert accuracy["with"] > 0.99
    assert accuracy["without"] < 0.5


def test_an_ensemble_has_the_mean_of_its_models_probabilities(folder, codon_model, capsys):
    words = ("train", "translation", folder / "x.dataset.h5", "--config", folder / "settings.toml")
    assert bioattn(*words, "--steps", 5, "--architecture", "recurrent", "-o", folder / "other") == 0
    models = [folder / "model", folder / "other"]
    (folder / "given.fa").write_text(">a\nGTTG\n")
    run = ("run", "translation", models[0], folder / "new.fa", "--ensemble", models[1])
    assert bioattn(*run, "--targets", folder / "given.fa", "-o", folder / "together.tsv") == 0
    loaded = [load_translator(model, torch.device("cpu")).model for model in models]
    source, target = loaded[0].source.tokenize("ACGTTGCAAC", ""), loaded[0].target.tokenize("GTTG", "")
    batch = batch_of([Pair(source, target)])
    with torch.no_grad():
        chances = [model(batch.source_BS, batch.prefix_BT)[0].double().softmax(-1) for model in loaded]
    own = (sum(chances) / 2).gather(-1, batch.wanted_BT[0][:, None])
    likely = float((folder / "together.tsv").read_text().splitlines()[1].split("\t")[2])
    assert likely == pytest.approx(float(own.log().sum()), rel=1e-5)
    assert bioattn(*run, "-o", folder / "written.tsv", "--beam", 3) == 0
    found = (folder / "written.tsv").read_text().splitlines()[1].split("\t")
    (folder / "given.fa").write_text(f">a\n{found[5]}\n")
    assert bioattn(*run, "--targets", folder / "given.fa", "-o", folder / "together.tsv") == 0
    likely = float((folder / "together.tsv").read_text().splitlines()[1].split("\t")[2])
    assert likely == pytest.approx(float(found[3]), rel=1e-4)
    capsys.readouterr()
    assert bioattn(*run, "--ensemble", codon_model, "-o", folder / "x.tsv") == 1
    assert (
        f"--ensemble {codon_model}: its sources are protein, those of {models[0]} dna"
        in capsys.readouterr().err
    )


def test_attention_names_tokens_finds_the_alignment_and_is_drawn(folder):
    output = folder / "attention.h5"
    common = ("export", "attention", folder / "model", folder / "new.fa")
    assert bioattn(*common, "-o", output) == 0
    assert bioattn("validate", output, folder / "model", folder / "x.dataset.h5") == 0
    (folder / "given.fa").write_text(">a\nGTTG\n>a/2\nC\n>b\n")
    assert bioattn(*common, "--targets", folder / "given.fa", "-o", folder / "given.h5") == 0
    with open_attention(output) as attention:
        weights_HQK = attention.weights("translation.source", sample="a")
        assert weights_HQK.shape == (1, 11, 12)
        assert weights_HQK[0].argmax(-1).tolist() == list(range(10, -1, -1))
        steps, read = "G1 T2 T3 G4 C5 A6 A7 C8 G9 T10 <eos>", "<cls> A1 C2 G3 T4 T5 G6 C7 A8 A9 C10 <eos>"
        assert attention.coordinates("translation.source", "query", "a") == steps.split()
        assert attention.coordinates("translation.source", "key", "a") == read.split()
    with open_attention(folder / "given.h5") as attention:
        assert attention.weights("translation.source", sample="a/2").shape == (1, 2, 12)
        assert attention.weights("translation.source", sample="b").shape == (1, 1, 9)
    with open_attention(output) as attention:
        name, (drawn,) = read_alignments(attention, sample="b")
    assert (name, drawn.site) == ("b", "translation.source")
    assert drawn.queries == ["G1", "G2", "T3", "A4", "C5", "C6", "C7", "<eos>"]
    assert drawn.keys == ["<cls>", "G1", "G2", "G3", "T4", "A5", "C6", "C7", "<eos>"]
    assert np.allclose(drawn.values_QK.sum(-1), 1, atol=1e-5)
    assert bioattn("plot", output, "--sample", "b", "-o", folder / "b.svg") == 0
    assert bioattn("plot", output, "--sample", "c", "-o", folder / "c.svg") == 1


def test_attention_that_is_needed_passes_its_check(folder, capsys):
    check = folder / "check.json"
    assert bioattn("explain", "check", folder / "model", folder / "x.dataset.h5", "-o", check) == 0
    found = json.loads(check.read_text())
    assert found["verdict"]["code"] == "faithful"
    assert found["verdict"]["sentence"] in capsys.readouterr().out
    measures = {each["name"]: each for each in found["measures"]}
    assert measures["skill"]["value"] > 0.9
    assert measures["shuffled_weights"]["value"] > 0.5
    assert measures["deletion"]["interval"][0] > 0.15
    assert bioattn("report", folder / "model", check, "-o", folder / "report.html") == 0
    assert found["verdict"]["sentence"] in (folder / "report.html").read_text()
    other = folder / "other.dataset.h5"
    dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record", "--seed", 7)
    assert bioattn("prepare", "translation", folder / "pairs", *dna, "-o", other) == 0
    assert bioattn("explain", "check", folder / "model", other, "-o", folder / "other.json") == 0
    for path, told in ((check, False), (folder / "other.json", True)):
        caveats = json.loads(path.read_text())["verdict"]["caveats"]
        assert any("was trained on these sequences is not known" in caveat for caveat in caveats) is told


def test_the_head_that_aligns_is_named_and_needed(folder, capsys):
    output = folder / "heads"
    assert bioattn("explain", "heads", folder / "model", folder / "x.dataset.h5", "-o", output) == 0
    assert "named: 1 reversed" in capsys.readouterr().err
    assert bioattn("inspect", output) == bioattn("validate", output) == 0
    header, row = (line.split("\t") for line in (output / "heads.tsv").read_text().splitlines())
    found = dict(zip(header, row, strict=True))
    assert float(found["slope"]) < -0.8
    assert float(found["accuracy_without"]) < 0.5
    assert json.loads((output / "heads.json").read_text())["whole"]["accuracy"] > 0.98


def test_attention_without_use_is_called_so(folder, tmp_path, capsys):
    """Targets that follow from their own prefix, whatever the source is."""
    random = np.random.default_rng(0)
    rows = "".join(
        f"r{n}\t{''.join(random.choice(list('xyz'), 8))}\t{('abc' * 4)[n % 3 : n % 3 + 8]}\n"
        for n in range(200)
    )
    (tmp_path / "pairs.tsv").write_text(f"id\tsource\ttarget\n{rows}")
    alphabets = ("--source-alphabet", "characters", "--target-alphabet", "characters")
    dataset, model = tmp_path / "x.dataset.h5", tmp_path / "model"
    assert bioattn("prepare", "translation", tmp_path / "pairs.tsv", *alphabets, "-o", dataset) == 0
    words = ("--config", folder / "settings.toml", "--steps", 40)
    assert bioattn("train", "translation", dataset, "-o", model, *words) == 0
    assert bioattn("explain", "check", model, dataset, "-o", tmp_path / "check.json") == 0
    assert bioattn("explain", "heads", model, dataset, "-o", tmp_path / "heads", "--force") == 0
    assert "Attention is not used to any gain" in capsys.readouterr().out
    words = ("--architecture", "recurrent", "--steps", 1, "--force")
    assert bioattn("train", "translation", dataset, "-o", tmp_path / "vector", *words) == 0
    assert bioattn("explain", "heads", tmp_path / "vector", dataset, "-o", tmp_path / "heads", "--force") == 1
    assert "recurrent has no heads to judge" in capsys.readouterr().err
    assert bioattn("explain", "check", tmp_path / "vector", dataset, "-o", tmp_path / "check.json") == 1
    assert "recurrent does not attend to source tokens" in capsys.readouterr().err


@pytest.fixture(scope="module")
def codon_model(tmp_path_factory):
    """An untrained model from proteins to codons."""
    torch.manual_seed(0)
    config = TranslationModelConfig(
        source_alphabet=PairAlphabet.PROTEIN,
        target_alphabet=PairAlphabet.CODON,
        architecture=Architecture.TRANSFORMER,
        channels=16,
        num_heads=2,
        layers=1,
        longest_source=50,
    )
    model = shaken(Translator(config))
    folder = tmp_path_factory.mktemp("codons") / "model"
    folder.mkdir()
    write_model(folder, "translation", model, architecture=asdict(model.config))
    return folder


PROTEINS = {"p1": "MKTAYIAKQRQISFVKSHFSRQ", "p2": "MEFGSGIPLRDKNEF", "p3": "MWWENSPXY"}


@pytest.mark.parametrize("extra", [(), ("--beam", 3), ("--samples", 3, "--temperature", 2)])
def test_outputs_encode_the_protein_without_forbidden_motifs(codon_model, tmp_path, extra, capsys):
    (tmp_path / "p.fa").write_text("".join(f">{name}\n{text}\n" for name, text in PROTEINS.items()))
    (tmp_path / "sites.txt").write_text("EcoRI GAATTC\nMboI GATC\nrun AAAA\nHinfI GANTC\n")
    words = ("--constraint", "protein", "--forbid", tmp_path / "sites.txt", *extra)
    output = tmp_path / "o.fa"
    assert bioattn("run", "translation", codon_model, tmp_path / "p.fa", "-o", output, *words) == 0
    assert "1 residue of 1 source are none of the 20 amino acids" in capsys.readouterr().err
    made = sequences(output)
    assert set(PROTEINS) <= set(made)
    for name, text in made.items():
        wanted, own = PROTEINS[name.partition("/")[0]], translate(text).removesuffix("*")
        assert len(own) == len(wanted)
        assert all(a == b or b == "X" for a, b in zip(own, wanted, strict=True))
        for strand in (text, reverse_complement(text)):
            assert not any(motif in strand for motif in ("GAATTC", "GATC", "AAAA"))
            assert not any(f"GA{base}TC" in strand for base in "ACGT")
    how = dict(zip((word.removeprefix("--") for word in extra[::2]), extra[1::2], strict=True))
    how |= {"constraint": "protein", "forbid": tmp_path / "sites.txt"}
    with pytest.warns(UserWarning, match="1 residue of 1 source are none of the 20 amino acids"):
        table = load_translator(codon_model, torch.device("cpu")).predict(PROTEINS, **how)
    assert table["sequence"].tolist() == list(made.values())


def test_a_motif_that_the_protein_forces_is_named(codon_model, tmp_path, capsys):
    (tmp_path / "p.fa").write_text(">forced\nMKWMWA\n")
    (tmp_path / "sites.txt").write_text(">x\nCATCCA\n>both\nTGGATGTGG\n")
    words = ("--constraint", "protein", "--forbid", tmp_path / "sites.txt", "-o", tmp_path / "o.fa")
    assert bioattn("run", "translation", codon_model, tmp_path / "p.fa", *words) == 1
    assert "forced: residues 3 to 4 (WM) force the forbidden motif x" in capsys.readouterr().err
    (tmp_path / "sites.txt").write_text("start ATG\n")
    assert bioattn("run", "translation", codon_model, tmp_path / "p.fa", *words) == 1
    assert "forced: residue 1 (M) forces the forbidden motif start" in capsys.readouterr().err
    (tmp_path / "sites.txt").write_text("x CCC\nx ATG\nx GGG\n")
    assert bioattn("run", "translation", codon_model, tmp_path / "p.fa", *words) == 1
    assert "forced: residue 1 (M) forces the forbidden motif x" in capsys.readouterr().err
    assert not (tmp_path / "o.fa").exists()


def test_the_genetic_code_of_the_dataset_is_that_of_the_model(tmp_path, capsys):
    """Yeast's mitochondria: CTN is threonine, ATA methionine, TGA tryptophan."""
    table = CodonTable.unambiguous_dna_by_id[3]
    codons = np.random.default_rng(0).choice(sorted(table.forward_table), (20, 40))
    genes = {f"g{number}": "ATG" + "".join(row) + "TAA" for number, row in enumerate(codons)}
    proteins = {name: translate(text, table=3, to_stop=True) for name, text in genes.items()}
    for name, records in (("p.fa", proteins), ("c.fa", genes)):
        (tmp_path / name).write_text("".join(f">{each}\n{text}\n" for each, text in records.items()))
    dataset, model = tmp_path / "x.dataset.h5", tmp_path / "model"
    words = ("prepare", "translation", tmp_path / "p.fa", tmp_path / "c.fa", "-o", dataset)
    assert bioattn(*words, "--genetic-code", 3) == 0
    words = ("-c", "model.channels=16", "-c", "model.num_heads=1", "--steps", 1)
    assert bioattn("train", "translation", dataset, "-o", model, *words) == 0
    run = ("run", "translation", model, tmp_path / "p.fa")
    assert bioattn(*run, "--constraint", "protein", "-o", tmp_path / "o.fa") == 0
    made = sequences(tmp_path / "o.fa")
    assert {name: translate(text, table=3, to_stop=True) for name, text in made.items()} == proteins
    capsys.readouterr()
    assert bioattn(*run, "--targets", tmp_path / "c.fa", "-o", tmp_path / "s.tsv") == 0
    assert "encode" not in capsys.readouterr().err
    assert bioattn(*run, "--constraint", "protein", "--genetic-code", 1, "-o", tmp_path / "o.fa") == 0
    assert {
        name: translate(text, to_stop=True) for name, text in sequences(tmp_path / "o.fa").items()
    } == proteins


def test_given_genes_of_other_proteins_are_told(codon_model, tmp_path, capsys):
    (tmp_path / "p.fa").write_text(">a\nMKR\n>b\nMKR*\n>c\nMKX\n")
    (tmp_path / "c.fa").write_text(">a\nATGAAATGG\n>b\nGTGAAGCGATAA\n>c\nATGAAANNN\n>c/2\nATGTAAAGA\n")
    words = ("--targets", tmp_path / "c.fa", "-o", tmp_path / "s.tsv")
    assert bioattn("run", "translation", codon_model, tmp_path / "p.fa", *words) == 0
    said = "2 of 4 outputs do not encode their source: a (codon 3 encodes W, the protein has R)"
    assert said in capsys.readouterr().err


def test_dna_given_to_a_model_of_proteins_is_told(codon_model, tmp_path, capsys):
    (tmp_path / "p.fa").write_text(">a\nACGTACGTAC\n")
    assert bioattn("run", "translation", codon_model, tmp_path / "p.fa", "-o", tmp_path / "o.fa") == 0
    said = "p.fa: looks like DNA or RNA, and is read as proteins; for nucleotides give a model of DNA"
    assert said in capsys.readouterr().err


def test_a_beam_is_as_good_as_every_output_and_a_wide_one_finds_the_best():
    """Against all outputs of a tiny alphabet up to a length."""
    config = TranslationModelConfig(
        source_alphabet=PairAlphabet.DNA, target_alphabet=PairAlphabet.DNA, channels=8, num_heads=1, layers=1
    )
    torch.manual_seed(1)
    model = shaken(Translator(config), 0.5)
    loaded = LoadedTranslator(model=model, device=torch.device("cpu"), sha256="")
    source = model.source.tokenize("ACG", "")
    every = [
        np.array(words, dtype=np.int64)
        for length in range(4)
        for words in itertools.product(range(5, 9), repeat=length)
    ]
    likely = {tuple(words): given_score(loaded, Pair(source, words))[1] for words in every}
    wide = search_outputs(loaded, source, Search(beam=85, length_penalty=0, length=3), "")
    best = max(likely, key=lambda words: likely[words])
    assert tuple(wide[0].tokens) == best
    for each in wide:
        assert each.log_likelihood == pytest.approx(likely[tuple(each.tokens)], abs=1e-4)
    greedy = search_outputs(loaded, source, Search(length=3), "")[0]
    for beam in (2, 3):
        found = search_outputs(loaded, source, Search(beam=beam, length=3), "")[0]
        assert found.score(0.6) >= greedy.score(0.6)


def test_a_turing_machine_reads_what_it_wrote(folder, tmp_path):
    """Reverse complements beyond trained lengths; the heads say where each letter was put and found."""
    model, output = tmp_path / "model", tmp_path / "a.h5"
    (tmp_path / "settings.toml").write_text(TURING)
    words = ("--architecture", "turing-machine", "--config", tmp_path / "settings.toml", "-o", model)
    assert bioattn("train", "translation", folder / "x.dataset.h5", *words) == 0
    assert bioattn("run", "translation", model, folder / "new.fa", "-o", tmp_path / "out.fa") == 0
    given = sequences(folder / "new.fa")
    assert sequences(tmp_path / "out.fa") == {name: reverse_complement(text) for name, text in given.items()}
    assert bioattn("export", "attention", model, folder / "new.fa", "-o", output) == 0
    assert bioattn("validate", output, model) == 0
    with open_attention(output) as attention:
        for name, text in given.items():
            put = attention.weights("translation.write.source", sample=name)[0]
            found = attention.weights("translation.read.target", sample=name)
            assert put.shape == (len(text) + 2, max(24, 2 * len(text) + 4))
            slots = put.argmax(-1)[1:-1]
            assert len(set(slots)) == len(text)
            best = max((head[:-1].argmax(-1) == slots[::-1]).mean() for head in found)
            assert best > 0.95
        name, panels = read_alignments(attention, sample="long")
    assert {panel.kinds for panel in panels} == {("source token", "slot"), ("decoder step", "slot")}
    drawn = tmp_path / "a.png"
    assert bioattn("plot", output, "--sample", "long", "-o", drawn) == 0
    assert drawn.stat().st_size > 0


def write_pairs(folder, source, target):
    (folder / "s.fa").write_text(source)
    (folder / "t.fa").write_text(target)
    return folder / "s.fa", folder / "t.fa"


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (">a\nMK\n>b\nMK\n", ">a\nATGAAA\n", "t.fa: 1 of 2 records of"),
        (">a\nMK\n", ">a\nATGCAA\n", "a (codon 2 encodes Q, the protein has K)"),
        (">a\nMK\n", ">a\nPVCAAA\n", "a (Codon 'PVC' is invalid; codons of DNA are needed)"),
    ],
)
def test_bad_pairs_are_named(tmp_path, source, target, said, capsys):
    words = ("prepare", "translation", *write_pairs(tmp_path, source, target))
    assert bioattn(*words, "-o", tmp_path / "x.dataset.h5") == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x.dataset.h5").exists()


def test_a_table_of_characters_becomes_a_dataset(tmp_path):
    rows = "".join(f"r{n}\t{'abc'[n % 3]}{n}\t{n}\n" for n in range(40))
    (tmp_path / "pairs.tsv").write_text(f"id\tsource\ttarget\n{rows}")
    alphabets = ("--source-alphabet", "characters", "--target-alphabet", "characters")
    output = tmp_path / "x.dataset.h5"
    assert bioattn("prepare", "translation", tmp_path / "pairs.tsv", *alphabets, "-o", output) == 0
    dataset = open_pair_dataset(output)
    assert dataset.source.characters == "0123456789abc"
    pair = dataset.pairs[dataset.ids.index("r17")]
    assert (dataset.source.text(pair.source), dataset.target.text(pair.target)) == ("c17", "17")
    assert [int((dataset.split == side).sum()) for side in range(3)] == [32, 4, 4]


def test_related_proteins_stay_on_one_side(tmp_path):
    random = np.random.default_rng(0)
    proteins = {}
    for number in range(30):
        text = "".join(random.choice(list("ACDEFGHIKLNPQRSTVY"), 60))
        proteins |= {f"a{number}": f"M{text}", f"b{number}": f"MGG{text[:40]}"}
    codon_of = {translate("".join(each)): "".join(each) for each in itertools.product("ACGT", repeat=3)}
    source = "".join(f">{name}\n{text}\n" for name, text in proteins.items())
    target = "".join(f">{name}\n{''.join(codon_of[r] for r in text)}TAA\n" for name, text in proteins.items())
    output = tmp_path / "x.dataset.h5"
    assert bioattn("prepare", "translation", *write_pairs(tmp_path, source, target), "-o", output) == 0
    dataset = open_pair_dataset(output)
    side = dict(zip(dataset.ids, dataset.split.tolist(), strict=True))
    assert all(side[f"a{number}"] == side[f"b{number}"] for number in range(30))
    assert set(side.values()) == {0, 1, 2}
    assert {row["related"] for row in dataset.metadata["leakage"]} == {0.0}
