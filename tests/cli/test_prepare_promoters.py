"""`bioattn prepare promoters` through the front door, on a genome small enough to read."""

import csv
import gzip
import hashlib
import json
import re

import pytest

from bioattn_cli.main import main

CHROMOSOME = "AAAAACCCCCGGGGGTTTTTACGTACGTAC"  # 30 bases
GENOME = f">c1 first\n{CHROMOSOME}\n>c2\n{'N' * 10}{'ACGT' * 5}\n"
GENES = """\
##gff-version 3
c1 . gene 11 14 . + . ID=f;gene_biotype=protein_coding
c1 . CDS 12 14 . + 0 ID=pf;Parent=f
c1 . gene 21 24 . - . ID=r;gene_biotype=tRNA
c1 . gene 2 3 . + . ID=early;gene_biotype=tRNA
c1 . gene 28 40 . + . ID=off;gene_biotype=tRNA
c1 . gene 5 6 . . . ID=unstranded;gene_biotype=tRNA
c9 . gene 5 6 . + . ID=elsewhere;gene_biotype=tRNA
c2 . gene 13 20 . + . ID=dark;gene_biotype=tRNA
"""


@pytest.fixture
def inputs(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    genome, genes = tmp_path / "in" / "genome.fa", tmp_path / "in" / "genes.gff3"
    genome.write_text(GENOME)
    genes.write_text("\n".join("\t".join(r.split(" ")) if r[0] == "c" else r for r in GENES.splitlines()))
    return genome, genes


def run(inputs, *options, output="x.fa"):
    folder = inputs[0].parent.parent / "out"
    return main(["prepare", "promoters", *map(str, inputs), "-o", str(folder / output), *map(str, options)])


def results(inputs, stem="x", suffix=".fa"):
    folder = inputs[0].parent.parent / "out"
    with (folder / f"{stem}.audit.tsv").open() as file:
        audit = {row["gene_id"]: row for row in csv.DictReader(file, delimiter="\t")}
    opened = gzip.open if suffix.endswith(".gz") else open
    with opened(folder / (stem + suffix), "rt") as file:
        records = [record.split("\n", 1) for record in file.read().split(">")[1:]]
    fasta = {header.split()[0]: (header, body.replace("\n", "")) for header, body in records}
    return audit, fasta, (folder / f"{stem}.bed").read_text()


SMALL = ("--upstream", "4", "--downstream", "2")


def test_both_strands_by_eye(inputs, capsys):
    assert run(inputs, *SMALL) == 0
    audit, fasta, bed = results(inputs)
    assert fasta["f"] == ("f c1:6-12(+) downstream=2", "CCCCGG")  # C6-C9, then G10 is base 1 of the gene
    # Bases 27…22 of the other strand; 23 is base 1.
    assert fasta["r"] == ("r c1:22-28(-) downstream=2", "ACGTAC")
    assert fasta["early"] == ("early c1:-3-3(+) downstream=2", "NNNAAA")
    assert bed.splitlines() == [
        "c1\t6\t12\tf\t0\t+",
        "c1\t22\t28\tr\t0\t-",
        "c1\t0\t3\tearly\t0\t+",
        "c2\t8\t14\tdark\t0\t+",
    ]
    assert {name: (row["status"], row["reason"]) for name, row in audit.items()} == {
        "f": ("kept", ""),
        "r": ("kept", ""),
        "early": ("kept", ""),
        "off": ("dropped", "outside_chromosome"),
        "unstranded": ("dropped", "no_strand"),
        "elsewhere": ("dropped", "chromosome_not_in_genome"),
        "dark": ("kept", ""),
    }
    assert audit["f"]["anchor"] == "10"
    assert audit["f"]["gc"] == "1.000000"
    assert audit["early"]["fraction_n"] == "0.500000"
    assert audit["r"]["other_genes"] == "off"
    talk = capsys.readouterr()
    assert talk.out == ""
    assert (
        "7 genes: 4 kept; 3 dropped (outside_chromosome 1, no_strand 1, chromosome_not_in_genome 1)"
        in talk.err
    )
    assert "no chromosome c9" in talk.err
    assert "off (line" in talk.err
    assert "--circular c1" in talk.err


def test_boundary_rules(inputs):
    assert run(inputs, *SMALL, "--boundary", "trim") == 0
    audit, fasta, _ = results(inputs)
    assert fasta["early"] == ("early c1:0-3(+) downstream=2", "AAA")
    early = audit["early"]
    assert (early["status"], early["reason"], early["length"]) == ("trimmed", "boundary", "3")
    assert run(inputs, *SMALL, "--boundary", "drop") == 0
    audit, fasta, _ = results(inputs)
    assert "early" not in fasta
    assert audit["early"]["reason"] == "boundary"


def test_overlap_rules(inputs):
    wide = ("--upstream", "6", "--downstream", "2")  # f: [4, 12) reaches into `unstranded` [4, 6)
    assert run(inputs, *wide, "--overlap", "mask", "--flank", "1") == 0
    audit, fasta, _ = results(inputs)
    assert fasta["f"][1] == "A" + "NN" + "CCCCGG" + "G"
    f = audit["f"]
    assert (f["status"], f["masked"], f["other_genes"]) == ("kept", "2", "unstranded")
    assert run(inputs, *wide, "--overlap", "trim", "--flank", "1") == 0
    audit, fasta, _ = results(inputs)
    assert fasta["f"] == ("f c1:6-12(+) flank=1 downstream=2", "N" + "CCCCGG" + "G")
    assert (audit["f"]["status"], audit["f"]["reason"], audit["f"]["length"]) == ("trimmed", "overlap", "6")
    assert run(inputs, *wide, "--overlap", "drop") == 0
    audit, fasta, _ = results(inputs)
    assert audit["f"]["reason"] == "overlap"
    assert "f" not in fasta


def test_max_n_biotype_and_cds(inputs):
    assert run(inputs, *SMALL, "--max-n", "0.4", "--biotype", "tRNA") == 0
    audit, fasta, _ = results(inputs)
    assert set(fasta) == {"r", "dark"}
    assert audit["f"]["reason"] == "biotype"
    assert audit["early"]["reason"] == "max_n"
    assert run(inputs, *SMALL, "--anchor", "cds") == 0
    audit, fasta, _ = results(inputs)
    assert fasta == {"f": ("f c1:7-13(+) downstream=2", "CCCGGG")}
    assert audit["f"]["transcript"] == "pf"
    assert audit["r"]["reason"] == "no_cds"


def test_genes_across_the_origin_of_a_circular_chromosome(inputs):
    inputs[1].write_text(
        "##gff-version 3\nc1\t.\tregion\t1\t30\t.\t+\t.\tID=c1;Is_circular=true\n"
        "c1\t.\tgene\t28\t35\t.\t-\t.\tID=a\nc1\t.\tgene\t10\t12\t.\t+\t.\tID=b\n"
    )
    assert run(inputs, "--upstream", "6", "--downstream", "2") == 0
    audit, fasta, _ = results(inputs)
    assert audit["a"]["anchor"] == "4"  # base 35 of 30
    assert fasta["a"][0] == "a c1:3-11(-) downstream=2"
    assert audit["b"]["other_genes"] == "a"  # [3, 11) of b reaches into the part of a after the origin


@pytest.mark.parametrize("stated_by", ["annotation", "plasmid", "FASTA", "option"])
def test_windows_go_around_the_origin(inputs, stated_by, capsys):
    """As windows of three turns of the chromosome laid end to end."""
    region = {
        "annotation": "c1\t.\tregion\t1\t30\t.\t+\t.\tID=c1;Is_circular=true\n",
        "plasmid": "c1\t.\tplasmid\t1\t30\t.\t+\t.\tID=c1;Is_circular=true\n",
    }.get(stated_by, "")
    genes = {"p": (3, 9, "+"), "m": (20, 28, "-"), "over": (29, 33, "+"), "mid": (14, 18, "+")}
    rows = (f"c1\t.\tgene\t{a}\t{b}\t.\t{strand}\t.\tID={name}\n" for name, (a, b, strand) in genes.items())
    inputs[1].write_text("##gff-version 3\n" + region + "".join(rows))
    if stated_by == "FASTA":
        inputs[0].write_text(GENOME.replace("c1 first", "c1 [topology=circular]"))
    options = ("--upstream", "7", "--downstream", "2", "--flank", "1", "--boundary", "drop")
    assert run(inputs, *options, *(("--circular", "c1") if stated_by == "option" else ())) == 0
    audit, fasta, bed = results(inputs)
    turns = CHROMOSOME * 3
    complement = str.maketrans("ACGT", "TGCA")
    for name, (first, last, strand) in genes.items():
        anchor = 30 + (first - 1 if strand == "+" else last - 1)
        if strand == "+":
            window = turns[anchor - 8 : anchor + 3]
        else:
            window = turns[anchor - 2 : anchor + 9].translate(complement)[::-1]
        assert fasta[name][1] == window
        assert audit[name]["status"] == "kept"
    assert (audit["p"]["start"], audit["p"]["end"]) == ("-5", "4")
    assert audit["p"]["other_genes"].split(",") == ["m", "over"]
    assert [line.split("\t")[1:4] for line in bed.splitlines()][:4] == [
        ["25", "30", "p"],
        ["0", "4", "p"],
        ["26", "30", "m"],
        ["0", "5", "m"],
    ]
    assert run(inputs, *SMALL, "--circular", "c7") == 1
    assert "--circular 'c7'" in capsys.readouterr().err


def test_aliases_that_are_found_are_written_and_can_be_given(inputs, capsys):
    text = inputs[1].read_text().replace("c1\t", "chr1\t").replace("c2\t", "chr2\t")
    inputs[1].write_text(text)
    inputs[0].write_text(GENOME.replace(">c1 first", ">1").replace(">c2", ">2"))
    assert run(inputs, *SMALL) == 1
    assert "--chromosome-aliases auto" in capsys.readouterr().err
    assert run(inputs, *SMALL, "--chromosome-aliases", "auto") == 0
    table = inputs[0].parent.parent / "out" / "x.aliases.tsv"
    assert table.read_text() == "# annotation\tgenome\nchr1\t1\nchr2\t2\n"
    _, fasta, _ = results(inputs)
    assert run(inputs, *SMALL, "--chromosome-aliases", table, output="y.fa") == 0
    assert results(inputs, "y")[1] == fasta


def test_bed_input_and_gz_output(inputs, tmp_path):
    bed = tmp_path / "in" / "genes.bed"
    bed.write_text("c1\t10\t14\tf\t0\t+\n")
    assert run((inputs[0], bed), *SMALL, output="y.fa.gz") == 0
    audit, fasta, _ = results(inputs, "y", ".fa.gz")
    assert fasta == {"f": ("f c1:6-12(+) downstream=2", "CCCCGG")}
    assert audit["f"]["biotype"] == ""


def digests(folder):
    files = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_same_input_same_bytes_and_a_record_beside(inputs, tmp_path):
    assert run(inputs, *SMALL) == 0
    first = digests(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "bioattn-records/x.fa.json").read_text())
    assert record["genes"] == {"kept": 4, "dropped": 3}
    assert record["outputs"]["x.fa"] == first["x.fa"]
    assert run(inputs, *SMALL) == 0
    assert digests(tmp_path / "out") == first
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"genome.fa", "genes.gff3"}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--upstream", "-1"], 2, "--upstream is -1"),
        (
            ["--biotype", "lincRNA"],
            1,
            "--biotype 'lincRNA': no gene of .* has it; there are tRNA, protein_coding",
        ),
        (["--max-n", "0", "--biotype", "protein_coding", "--upstream", "20"], 1, "no promoter is left"),
        (["--id-attribute", "nope"], 1, "'nope' named by --id-attribute; gene rows have ID, gene_biotype"),
    ],
)
def test_bad_settings_write_nothing(inputs, tmp_path, capsys, options, code, message):
    assert run(inputs, *SMALL, *options) == code
    assert re.search(message, capsys.readouterr().err)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("genome.fa", b">c1\nACGU\n", "belongs to RNA"),
        ("genome.fa", gzip.compress(GENOME.encode(), mtime=0)[:-9], "damaged"),
        ("genes.gff3", b"", "holds no annotation row"),
        ("genes.gff3", b"LOCUS       U1 9 bp\n", "give the GFF3 and FASTA of the same record"),
        ("genome.fa", b"ID   U1; SV 1; linear\n", "give the GFF3 and FASTA of the same record"),
        ("genes.gff3", b"c1\t.\tgene\t5\t9\t.\t+\t.\tID=a%20b\n", "'a b' contains white space"),
    ],
)
def test_bad_files_get_one_sentence_and_write_nothing(inputs, tmp_path, capsys, name, content, message):
    (tmp_path / "in" / name).write_bytes(content)
    assert run(inputs, *SMALL) == 1
    error = capsys.readouterr().err
    assert error.startswith("bioattn: error: ")
    assert error.count("\n") == 1
    assert message in error
    assert list((tmp_path / "out").iterdir()) == []


def test_inputs_are_never_overwritten(inputs, tmp_path, capsys):
    bed = tmp_path / "out" / "x.bed"
    bed.write_text("c1\t10\t14\tf\t0\t+\n")
    assert run((inputs[0], bed), *SMALL) == 2
    assert "which is an input" in capsys.readouterr().err
    assert bed.read_text() == "c1\t10\t14\tf\t0\t+\n"
    assert main(["prepare", "promoters", *map(str, inputs), "-o", str(inputs[0])]) == 2
    assert inputs[0].read_text() == GENOME


def test_bed_cannot_serve_what_needs_transcripts(inputs, tmp_path, capsys):
    bed = tmp_path / "in" / "genes.bed"
    bed.write_text("c1\t10\t14\tf\t0\t+\n")
    for options in (["--anchor", "cds"], ["--feature", "mRNA"], ["--biotype", "x"], ["--id-attribute", "x"]):
        assert run((inputs[0], bed), *options) == 1
        assert "is BED" in capsys.readouterr().err
