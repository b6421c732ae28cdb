"""Promoters of real genomes against bedtools, bioframe and plain loops that share no code with the package."""

import csv
import gzip
import re
from pathlib import Path
from typing import NamedTuple

import bioframe
import pandas as pd
import pytest
from Bio import SeqIO

from bioattn_cli.main import main

pytestmark = pytest.mark.shared


class Source(NamedTuple):
    """One genome with its annotation."""

    genome: str
    annotation: str
    identifier: str
    """Regular expression of the gene id in the last column of a gene row."""


SOURCES = {
    "yeast-ensembl": Source(
        "yeast/R64_ensembl.genome.fa.gz", "yeast/R64_ensembl96.gtf.gz", r'gene_id "([^"]+)"'
    ),
    "ecoli": Source(
        "ecoli/GCF_000005845.2_ASM584v2_genomic.fna.gz",
        "ecoli/GCF_000005845.2_ASM584v2_genomic.gff.gz",
        r"locus_tag=([^;]+)",
    ),
    "arabidopsis": Source(
        "arabidopsis/A.thaliana.1pct.fa.gz", "arabidopsis/A.thaliana.1pct.gff.gz", r"ID=([^;]+)"
    ),
}
UPSTREAM, DOWNSTREAM = 800, 200


class Truth(NamedTuple):
    """What the oracle reads from the files by itself."""

    genome_path: Path
    annotation_path: Path
    sequences: dict[str, str]
    """By chromosome; of circular ones three turns."""
    genes: pd.DataFrame
    """chrom, start, end, name, strand of every gene row, 0-based half-open."""
    turns: pd.DataFrame
    """The genes; those of circular chromosomes also one turn before and one behind."""
    genes_of: dict[str, list]
    """`turns` by chromosome."""
    circular: set[str]
    rows: pd.DataFrame
    """All rows: chrom, kind, start, end, strand, attributes."""


@pytest.fixture(scope="module", params=SOURCES)
def truth(request, shared):
    source = SOURCES[request.param]
    genome_path, annotation_path = shared / "data" / source.genome, shared / "data" / source.annotation
    with gzip.open(genome_path, "rt") as file:
        sequences = {record.id: str(record.seq).upper() for record in SeqIO.parse(file, "fasta")}
    rows = pd.read_csv(
        annotation_path,
        sep="\t",
        comment="#",
        header=None,
        names=["chrom", "source", "kind", "start", "end", "score", "strand", "phase", "attributes"],
        dtype={"chrom": str},
        quoting=csv.QUOTE_NONE,
    )
    rows["start"] -= 1
    genes = rows[rows["kind"].isin(["gene", "pseudogene", "transposable_element_gene"])].copy()
    genes["name"] = genes["attributes"].str.extract(source.identifier)
    genes = genes[["chrom", "start", "end", "name", "strand"]]
    circular = set(rows["chrom"][rows["attributes"].str.contains("Is_circular=true", regex=False)])
    here = genes[genes["chrom"].isin(circular)]
    length = here["chrom"].map(lambda chrom: len(sequences[chrom]))
    shifted = [here.assign(start=here["start"] + s * length, end=here["end"] + s * length) for s in (-1, 1)]
    turns = pd.concat([genes, *shifted], ignore_index=True).astype({"start": int, "end": int})
    sequences |= {chrom: sequences[chrom] * 3 for chrom in circular}
    genes_of = {chrom: list(own.itertuples()) for chrom, own in turns.groupby("chrom")}
    return Truth(genome_path, annotation_path, sequences, genes, turns, genes_of, circular, rows)


def prepare(truth, folder, *options):
    """Run the command; audit rows by gene and sequences by gene."""
    output = folder / "x.fa"
    assert main(["prepare", "promoters", str(truth.genome_path), str(truth.annotation_path), "-o", str(output),
                 "--upstream", str(UPSTREAM), "--downstream", str(DOWNSTREAM), "-q", *options]) == 0  # fmt: skip
    with (folder / "x.audit.tsv").open() as file:
        audit = {row["gene_id"]: row for row in csv.DictReader(file, delimiter="\t")}
    return audit, {record.id: str(record.seq) for record in SeqIO.parse(output, "fasta")}


def expected_window(gene):
    """The window of one gene, worked out by hand: 0-based half-open, possibly beyond the chromosome."""
    if gene.strand == "+":
        return gene.start - UPSTREAM, gene.start + DOWNSTREAM
    return gene.end - DOWNSTREAM, gene.end + UPSTREAM


def expected_sequence(truth, chrom, start, end, strand):
    """The window's sequence, N beyond the ends of a chromosome that has some."""
    chromosome = truth.sequences[chrom]
    if chrom in truth.circular:
        start, end = start + len(chromosome) // 3, end + len(chromosome) // 3
    inside = chromosome[max(start, 0) : max(end, 0)]
    padded = "N" * (min(end, 0) - min(start, 0)) + inside
    padded += "N" * (end - start - len(padded))
    padded = re.sub("[^ACGT]", "N", padded)
    return padded if strand == "+" else padded[::-1].translate(str.maketrans("ACGT", "TGCA"))


def windows_of(truth):
    table = truth.genes.copy()
    table[["start", "end"]] = [expected_window(gene) for gene in truth.genes.itertuples()]
    return table


def others_by_bioframe(truth):
    """Ids of the other genes each window reaches into."""
    pairs = bioframe.overlap(windows_of(truth), truth.turns, how="inner", suffixes=("", "_other"))
    pairs = pairs[pairs["name"] != pairs["name_other"]]
    found = {name: set() for name in truth.genes["name"]}
    for name, other in zip(pairs["name"], pairs["name_other"], strict=True):
        found[name].add(other)
    return found


def test_every_gene_its_window_and_its_sequence(truth, tmp_path):
    audit, sequences = prepare(truth, tmp_path)
    assert list(audit) == list(truth.genes["name"]) == list(sequences)
    assert set(truth.genes["strand"]) == {"+", "-"}
    others = others_by_bioframe(truth)
    for gene in truth.genes.itertuples():
        row = audit[gene.name]
        start, end = expected_window(gene)
        assert (int(row["start"]), int(row["end"])) == (start, end)
        assert (row["chrom"], row["strand"], row["status"]) == (gene.chrom, gene.strand, "kept")
        sequence = expected_sequence(truth, gene.chrom, start, end, gene.strand)
        assert sequences[gene.name] == sequence
        assert set(row["other_genes"].split(",")) - {""} == others[gene.name]
        assert float(row["fraction_n"]) == pytest.approx(sequence.count("N") / 1000, abs=1e-6)


def covered(truth, gene, start, end):
    """Which bases of a window lie in other genes, base by base along the chromosome."""
    inside = [False] * (end - start)
    for other in truth.genes_of[gene.chrom]:
        if other.name != gene.name:
            for position in range(max(other.start, start), min(other.end, end)):
                inside[position - start] = True
    return inside


def sample(truth):
    """Every gene of a small genome, each hundredth of a large one: the loops are slow."""
    return truth.genes.iloc[:: 100 if len(truth.genes) > 1000 else 1]


def test_mask_hides_exactly_the_bases_of_other_genes(truth, tmp_path):
    audit, sequences = prepare(truth, tmp_path, "--overlap", "mask")
    assert list(sequences) == list(truth.genes["name"])
    for gene in sample(truth).itertuples():
        start, end = expected_window(gene)
        hidden = covered(truth, gene, start, end)
        if gene.strand == "-":
            hidden.reverse()
        plain = expected_sequence(truth, gene.chrom, start, end, gene.strand)
        assert sequences[gene.name] == "".join("N" if h else b for h, b in zip(hidden, plain, strict=True))
        assert int(audit[gene.name]["masked"]) == sum(hidden)


def test_trim_stops_at_the_nearest_other_gene(truth, tmp_path):
    audit, sequences = prepare(truth, tmp_path, "--overlap", "trim", "--boundary", "trim")
    for gene in sample(truth).itertuples():
        row = audit[gene.name]
        start, end = expected_window(gene)
        length = len(truth.sequences[gene.chrom])
        outside = [not 0 <= place < length for place in range(start, end)]
        if gene.chrom in truth.circular:
            outside = [False] * len(outside)
        if outside[-1] if gene.strand == "+" else outside[0]:
            assert (row["status"], row["reason"]) == ("dropped", "boundary")
            continue
        hidden = covered(truth, gene, start, end)
        blocked = [h or o for h, o in zip(hidden, outside, strict=True)]
        if gene.strand == "-":
            blocked.reverse()
        upstream = 0
        while upstream < UPSTREAM and not blocked[UPSTREAM - 1 - upstream]:
            upstream += 1
        if upstream == 0:
            assert (row["status"], row["reason"]) == ("dropped", "no_upstream_left")
            assert gene.name not in sequences
            continue
        assert row["status"] == ("kept" if upstream == UPSTREAM else "trimmed")
        assert int(row["length"]) == upstream + DOWNSTREAM
        whole = expected_sequence(truth, gene.chrom, start, end, gene.strand)
        assert sequences[gene.name] == whole[UPSTREAM - upstream :]


def test_anchors_of_coding_sequences(truth, tmp_path):
    """Longest coding sequence of each gene, found by grouping rows and nothing else."""
    audit, _ = prepare(truth, tmp_path, "--anchor", "cds")
    rows = truth.rows
    gtf = rows["attributes"].str.contains('gene_id "', regex=False).any()
    coding = rows[rows["kind"] == "CDS"].drop_duplicates()
    genes = truth.genes.set_index("name")
    if gtf:
        owner = coding["attributes"].str.extract(r'gene_id "([^"]+)"')[0]
        group = coding["attributes"].str.extract(r'transcript_id "([^"]+)"')[0]
    else:
        parent = coding["attributes"].str.extract(r"Parent=([^;,]+)")[0]
        group = parent
        upper = rows.assign(id=rows["attributes"].str.extract(r"ID=([^;]+)")[0]).dropna(subset="id")
        upper = upper.assign(up=upper["attributes"].str.extract(r"Parent=([^;,]+)")[0]).drop_duplicates("id")
        up = upper.set_index("id")["up"]
        name_of_id = upper.assign(
            name=upper["attributes"].str.extract(r"locus_tag=([^;]+)")[0].fillna(upper["id"])
        )
        owner = parent.map(lambda p: up[p] if isinstance(up.get(p), str) else p)
        owner = owner.map(name_of_id.set_index("id")["name"])
    found: dict[str, tuple[int, set[int]]] = {}
    for (name, _), part in coding.groupby([owner, group]):
        total = int((part["end"] - part["start"]).sum())
        first = int(part["start"].min() if genes.loc[name, "strand"] == "+" else part["end"].max() - 1)
        best, anchors = found.get(name, (0, set()))
        if total > best:
            found[name] = total, {first}
        elif total == best:
            anchors.add(first)
    assert len(found) > 300
    for name, row in audit.items():
        if name not in found:
            assert (row["status"], row["reason"]) == ("dropped", "no_cds")
        elif name in found:
            assert int(row["anchor"]) in found[name][1]
