"""`bioattn prepare dataset` through the front door: files made, files refused, nothing half-written."""

import gzip

import numpy as np
import pandas as pd
import pytest

from bioattn.choices import TEST, VALIDATION
from bioattn.promoters.dataset import read_dataset
from bioattn.promoters.promoter_fasta import Promoter, read_promoters, write_promoters
from bioattn_cli.main import main

GENES = [f"YAL{i:03d}C" for i in range(120)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 4, (120, 100)).astype(np.uint8)
    places = [(f"chr{i // 20}", i * 500, i * 500 + 100, "+", 0) for i in range(120)]
    write_promoters(tmp_path / "p.fa", map(Promoter, GENES, *zip(*places, strict=True), codes))
    values = generator.normal(size=(120, 3)).round(3)
    frame = pd.DataFrame(values, pd.Index(GENES, name="gene"), ["heat_5", "heat_10", "salt"])
    frame.to_csv(tmp_path / "r.tsv", sep="\t")
    (tmp_path / "t.tsv").write_text(
        "name\tagent\tminutes\nheat_5\theat\t5\nheat_10\theat\t10\nsalt\tNaCl\t\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return main(["prepare", "dataset", *map(str, arguments)])


def left_behind(folder):
    return sorted(p.name for p in folder.iterdir() if p.name not in ("p.fa", "r.tsv", "t.tsv", "bad.tsv"))


def test_everything_is_written(folder, capfd):
    assert run("p.fa", "r.tsv", "--treatment-table", "t.tsv", "-o", "x.dataset.h5") == 0
    assert left_behind(folder) == ["bioattn-records", "x.dataset.audit.tsv", "x.dataset.h5"]
    audit = pd.read_csv("x.dataset.audit.tsv", sep="\t")
    assert audit.value_counts(["kind", "status"]).to_dict() == {
        ("gene", "kept"): 120,
        ("treatment", "kept"): 3,
    }
    dataset = read_dataset(folder / "x.dataset.h5")
    assert dataset.treatments.columns == ["agent", "minutes"]
    out, err = capfd.readouterr()
    assert out == ""
    assert "test promoters against train: 0.0 % share at least 10 % of their 14-mers" in err


def test_same_input_same_bytes(folder):
    arguments = ("p.fa", "r.tsv", "--split", "homology", "--seed", 3, "-q")
    assert run(*arguments, "-o", "a.h5") == run(*arguments, "-o", "b.h5") == 0
    assert (folder / "a.h5").read_bytes() == (folder / "b.h5").read_bytes()
    assert (folder / "a.audit.tsv").read_bytes() == (folder / "b.audit.tsv").read_bytes()


@pytest.mark.parametrize(
    "holdout",
    [
        ["--holdout", "test=chr0,chr1", "validation=chr2"],
        ["--holdout", "test=chr0,chr1 validation=chr2"],
        ["--holdout", "test=chr0", "--holdout", "test=chr1", "--holdout", "validation=chr2"],
    ],
)
def test_holdouts_may_be_written_three_ways(folder, holdout):
    assert run("p.fa", "r.tsv", "-o", "x.h5", "--split", "chromosome", *holdout) == 0
    dataset = read_dataset(folder / "x.h5")
    for side, names in ((TEST, {"chr0", "chr1"}), (VALIDATION, {"chr2"})):
        assert {dataset.chrom[i] for i in dataset.genes_in(side)} == names


def test_contrast_tables_with_names(folder):
    for name, shift in (("a.csv", 0.0), ("b.csv.gz", 1.0)):
        lines = ["gene,log2FoldChange,lfcSE,padj"]
        lines += [f"{gene},{shift + i / 50},0.5,{0.01 if i % 2 else 0.9}" for i, gene in enumerate(GENES)]
        text = "\n".join(lines).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    words = ("--task", "binary", "--threshold", 0.5, "--max-padj", 0.05)
    assert run("p.fa", "heat=a.csv", "b.csv.gz", "-o", "x.h5", *words) == 0
    dataset = read_dataset(folder / "x.h5")
    assert dataset.treatments.names == ["heat", "b"]
    index = [GENES.index(gene) for gene in dataset.gene_ids]
    assert dataset.targets[:, 0].tolist() == [float(i % 2 == 1 and i / 50 >= 0.5) for i in index]


@pytest.mark.parametrize(
    ("bad", "arguments", "code", "sentence"),
    [
        ("gene\theat\nb0001\t1\n", [], 1, "no gene of the response tables is among the promoters"),
        (b"\x1f\x8b\x08\x00broken", [], 1, "the compressed data end early or are damaged"),
        ("gene\tcold\nYAL000C\t1\n", ["--treatment-table", "t.tsv"], 1, "has no row for 1 of 1 treatments"),
        ("gene\theat\nYAL000C\t1\n", ["--threshold", "1"], 2, "--threshold belongs to the binary task"),
        ("gene\theat\nYAL000C\t1\n", ["--proteins", "p.fa"], 1, "p.fa: holds nucleotides"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(folder, capfd, bad, arguments, code, sentence):
    (folder / "bad.tsv").write_bytes(bad if isinstance(bad, bytes) else bad.encode())
    assert run("p.fa", "bad.tsv", "-o", "x.h5", *arguments) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert sentence in err
    errors = [line for line in err.splitlines() if line.startswith("bioattn: error:")]
    assert len(errors) == 1
    assert "Traceback" not in err
    assert left_behind(folder) == []


@pytest.mark.parametrize("options", [(), ("--split", "block", "--block-size", "1kb"), ("--split", "random")])
def test_no_split_parts_a_transcription_unit(folder, options):
    """Units of three neighbours, here and there of two or one."""
    unit = {gene: f"{i // 20}.{(i % 20 + 2) // 3}" for i, gene in enumerate(GENES) if i % 20}
    named = [p._replace(unit=unit.get(p.gene_id, "")) for p in read_promoters(folder / "p.fa")]
    write_promoters(folder / "u.fa", named)
    assert run("u.fa", "r.tsv", "-o", "x.dataset.h5", "--seed", 1, *options) == 0
    dataset = read_dataset(folder / "x.dataset.h5")
    genes_of = {}
    for gene, name in unit.items():
        genes_of.setdefault(name, []).append(gene)
    sides = dict(zip(dataset.gene_ids, dataset.gene_split, strict=True))
    assert all(len({sides[gene] for gene in genes}) == 1 for genes in genes_of.values())


def test_units_that_cannot_be_kept_whole_are_refused(folder, capfd):
    ends = ("YAL000C", "YAL119C")
    named = [p._replace(unit="a" * (p.gene_id in ends)) for p in read_promoters(folder / "p.fa")]
    write_promoters(folder / "u.fa", named)
    sides = [f"{gene}\t{'test' if gene == ends[0] else 'train'}\n" for gene in GENES]
    (folder / "s.tsv").write_text("gene\tsplit\n" + "".join(sides))
    for options in (("--split-table", "s.tsv"), ("--holdout", "test=chr0", "--holdout", "validation=chr1")):
        assert run("u.fa", "r.tsv", "-o", "x.h5", *options) == 1
        sentence = "'YAL000C' and 'YAL119C' are of one transcription unit but in test and train; give a split"
        assert sentence in capfd.readouterr().err
    assert not (folder / "x.h5").exists()


def test_proteins_keep_paralogues_on_one_side(folder):
    """Each gene has the protein of its neighbour."""
    letters = np.random.default_rng(1).choice(list("ACDEFGHIKLMNPQRSTVWY"), (60, 200))
    records = (f">{gene}\n{''.join(letters[number // 2])}\n" for number, gene in enumerate(GENES))
    (folder / "proteins.fa").write_text("".join(records))
    assert run("p.fa", "r.tsv", "-o", "x.h5", "--split", "homology", "--proteins", "proteins.fa") == 0
    dataset = read_dataset(folder / "x.h5")
    sides = dataset.gene_split[[dataset.gene_ids.index(gene) for gene in GENES]].reshape(60, 2)
    assert (sides[:, 0] == sides[:, 1]).all()
    assert [figure["paralogues"] for figure in dataset.metadata["leakage"]] == [0, 0, 0]


@pytest.mark.shared
def test_phage_table_of_e_coli(shared, tmp_path, capfd):
    data = shared / "data/ecoli"
    code = main(
        ["prepare", "promoters", str(data / "GCF_000005845.2_ASM584v2_genomic.fna.gz"),
         str(data / "GCF_000005845.2_ASM584v2_genomic.gff.gz"),
         "-o", str(tmp_path / "e.fa"), "--upstream", "300", "--operons", "100", "-q"]
    )  # fmt: skip
    assert code == 0
    code = run(
        tmp_path / "e.fa", data / "phage_log_tpm.csv.gz", "--treatment-table", data / "phage_metadata.tsv",
        "--replicate-column", "condition_id", "-o", tmp_path / "e.dataset.h5",
    )  # fmt: skip
    err = capfd.readouterr().err
    assert code == 0, err
    dataset = read_dataset(tmp_path / "e.dataset.h5")
    table = pd.read_csv(data / "phage_log_tpm.csv.gz", index_col=0)
    groups = [name.split("__")[1] for name in table.columns]
    expected = table.T.groupby(groups, sort=False).mean().T
    assert dataset.treatments.names == list(expected.columns)
    np.testing.assert_allclose(dataset.targets, expected.loc[dataset.gene_ids], rtol=1e-5, atol=1e-6)
    audit = pd.read_csv(tmp_path / "e.dataset.audit.tsv", sep="\t")
    unknown = audit[audit["reason"] == "no promoter of this name"]
    assert len(unknown) == 77
    assert unknown["name"].str.startswith("lambda").sum() == 73
    assert "77 genes of the responses left out, no promoter of this name: 'b" in err
    assert dataset.metadata["split"]["genes"] == "homology"
    # The operons of textbooks stay whole.
    side = audit.set_index("name")["split"]
    units = ("b0001", "b0002", "b0003", "b0004"), ("b0344", "b0343", "b0342")  # thrLABC; lacZYA, other strand
    for first, *others in units:
        assert {side[gene] for gene in others} == {side[first]}


def test_a_table_gives_the_split(folder, capfd):
    sides = ["train", "valid", "Test"] * 40
    rows = [f"{side}\t{gene}\n" for gene, side in zip(GENES, sides, strict=True)]
    (folder / "s.tsv").write_text("split\tgene\n" + "".join(reversed(rows)) + "train\tYBR001W\n")
    assert run("p.fa", "r.tsv", "--split-table", "s.tsv", "-o", "x.h5") == 0
    dataset = read_dataset(folder / "x.h5")
    assert [dataset.gene_split[GENES.index(gene)] for gene in GENES[:3]] == [0, VALIDATION, TEST]
    assert np.bincount(dataset.gene_split).tolist() == [40, 40, 40]
    assert dataset.metadata["split"]["genes"] == "table"
    assert "test promoters against train: 0.0 % share" in capfd.readouterr().err
    # The audit of that dataset, whose rows of genes left out have no side, gives another one the same split.
    (folder / "fewer.tsv").write_text("".join((folder / "r.tsv").read_text().splitlines(keepends=True)[:-1]))
    assert run("p.fa", "fewer.tsv", "--split-table", "x.audit.tsv", "-o", "z.h5") == 0
    fewer = read_dataset(folder / "z.h5")
    side_of = dict(zip(dataset.gene_ids, dataset.gene_split, strict=True))
    assert len(fewer.gene_ids) == 119
    assert fewer.gene_split.tolist() == [side_of[gene] for gene in fewer.gene_ids]
    assert run("p.fa", "r.tsv", "--split-table", "z.audit.tsv", "-o", "y.h5") == 1
    assert "1 of 120 genes are not in the table" in capfd.readouterr().err
    for text, sentence in [
        ("".join(rows[:-1]), "1 of 120 genes are not in the table: 'YAL119C'"),
        ("".join(rows) + rows[0], "s.tsv:122: the gene 'YAL000C' has a side already"),
        ("".join(rows) + "dev\tYBR001W\n", "s.tsv:122: the split is 'dev'; one of train, validation, test"),
        ("".join(row.replace("train", "test") for row in rows), "no gene is left for training"),
    ]:
        (folder / "s.tsv").write_text("split\tgene\n" + text)
        assert run("p.fa", "r.tsv", "--split-table", "s.tsv", "-o", "y.h5") == 1
        assert sentence in capfd.readouterr().err
    assert run("p.fa", "r.tsv", "--split-table", "s.tsv", "--holdout", "test=0.1", "-o", "y.h5") == 2
    assert not (folder / "y.h5").exists()
