"""AnnData files and raw counts, compared with anndata, pandas and plain loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bioattn.promoters.genes import GeneNames
from bioattn.promoters.responses import read_expression, size_factors, without_replicate
from tests.making import bioattn

GENES, SAMPLES = ["g1", "g2", "g3"], ["heat_1", "heat_2", "cold", "none"]
VALUES = np.array([[1, 0, 3], [4, 5, 0], [0.5, 1, 2], [7, 7, 7]])
PROMOTERS = GeneNames(GENES, ["TFC3", "", "VPS8"])


def write_h5ad(path, transposed=False, matrix=VALUES, **more):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"agent": ["heat", "heat", "cold", None], "dose": [1, 1, None, 2.5]}, index=SAMPLES)
    var = pd.DataFrame({"symbol": ["TFC3", "x", "VPS8"]}, index=more.pop("var_names", GENES))
    data = anndata.AnnData(matrix, obs, var, layers={"twice": 2 * matrix})
    (data.T.copy() if transposed else data).write_h5ad(path)
    return path


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_both_ways_round_dense_and_sparse(tmp_path, transposed, form):
    path = write_h5ad(tmp_path / "x.h5ad", transposed, form(VALUES))
    read = read_expression(path, promoters=PROMOTERS)
    pd.testing.assert_frame_equal(read, pd.DataFrame(VALUES.T, GENES, SAMPLES))
    layer = read_expression(path, "twice", "agent", promoters=PROMOTERS)
    # The sample without an agent is in none.
    pd.testing.assert_frame_equal(layer, pd.DataFrame({"heat": [5.0, 5, 3], "cold": [1.0, 2, 4]}, GENES))


def test_genes_are_named_by_the_column_that_the_promoters_know(tmp_path):
    path = write_h5ad(tmp_path / "x.h5ad", var_names=["ENSG1", "ENSG2", "ENSG3"])
    assert read_expression(path, promoters=PROMOTERS).index.tolist() == ["TFC3", "x", "VPS8"]
    assert read_expression(path, gene_column="symbol").index.tolist() == ["TFC3", "x", "VPS8"]


def test_samples_without_a_label_are_told(tmp_path, caplog):
    path = write_h5ad(tmp_path / "x.h5ad")
    assert read_expression(path, None, "dose").columns.tolist() == ["1", "2.5"]
    assert "1 sample without a value of 'dose' left out: 'cold'" in caplog.text


def test_size_factors_are_medians_of_ratios():
    counts = np.random.default_rng(0).poisson(50, (40, 4)) * np.array([1, 2, 4, 0.5])
    counts[:5, 1] = 0
    expected = []
    for sample in range(4):
        ratios = [row[sample] / np.prod(row) ** 0.25 for row in counts if row.all()]
        expected.append(np.median(ratios))
    np.testing.assert_allclose(size_factors(counts), expected)
    counts[np.arange(40), np.arange(40) % 4] = 0  # no gene has counts in all samples
    assert np.prod(size_factors(counts)) == pytest.approx(1)


def test_only_numbers_from_one_on_are_replicates():
    names = ["ctrl_1", "ctrl_2", "heat_30", "heat_60", "salt.rep4", "S1", "S2"]
    assert without_replicate(names) == ["ctrl", "ctrl", "heat_30", "heat_60", "salt", "S", "S"]
    ends = ["Aligned.sortedByCoord.out.bam", ".Aligned.out.sam", "_sorted.bam", ".markdup.sorted.bam", ".bam"]
    for end in [*ends, "_Aligned.sortedByCoord.out.bam", ".genes.results"]:
        assert without_replicate([f"a_1{end}", f"a_2{end}"]) == ["a", "a"]
    assert without_replicate(["resorted_1.bam", "a_sort_2.bam"]) == ["resorted", "a_sort"]


def dataset(folder, *words):
    output = ("-o", folder / "d.dataset.h5", "--split", "random")
    return bioattn("prepare", "dataset", folder / "p.fa", *words, *output)


def values(folder):
    from bioattn.promoters.dataset import read_dataset

    made = read_dataset(folder / "d.dataset.h5")
    return pd.DataFrame(made.targets, index=made.gene_ids, columns=made.treatments.names)


@pytest.fixture
def counts(tmp_path):
    """Promoters, and counts of which heat doubles the first ten genes, in samples of different depth."""
    draw = np.random.default_rng(1)
    genes = [f"g{number:02d}" for number in range(30)]
    records = (f">{gene}\n{''.join(draw.choice(list('ACGT'), 60))}\n" for gene in genes)
    (tmp_path / "p.fa").write_text("".join(records))
    level = draw.integers(200, 400, (30, 1)) * np.array([1, 2, 1, 3, 2, 1])
    level[:10, 2:4] *= 2
    columns = ["ctrl_1", "ctrl_2", "heat_1", "heat_2", "salt_1", "salt_2"]
    table = pd.DataFrame(level, index=pd.Index(genes, name="gene"), columns=columns)
    table.loc["g29"] = 1
    table.to_csv(tmp_path / "counts.tsv", sep="\t")
    return tmp_path


def test_raw_counts_are_told_and_made_ratios(counts, capsys):
    assert dataset(counts, counts / "counts.tsv") == 1
    assert "look like raw counts" in capsys.readouterr().err
    assert dataset(counts, counts / "counts.tsv", "--control", "ctrl") == 0
    assert "those of DESeq2 or edgeR" in capsys.readouterr().err
    made = values(counts)
    assert list(made.columns) == ["heat", "salt"]
    assert "g29" not in made.index  # fewer than 10 counts in all
    np.testing.assert_allclose(made["heat"], [1.0] * 10 + [0.0] * 19, atol=0.02)
    np.testing.assert_allclose(made["salt"], 0, atol=0.02)
    assert dataset(counts, counts / "counts.tsv", "--control", "mock") == 1
    assert "--control 'mock'" in capsys.readouterr().err


def test_counts_of_isoforms_are_summed_before_their_ratio(counts, capsys):
    """A silent isoform once halved the ratio of its gene."""
    table = pd.read_csv(counts / "counts.tsv", sep="\t", index_col=0)
    silent = (table * 0 + 2).rename(lambda gene: f"{gene}.2")
    isoforms = pd.concat([(table - 2).clip(lower=0).rename(lambda gene: f"{gene}.1"), silent])
    isoforms.to_csv(counts / "isoforms.tsv", sep="\t")
    assert dataset(counts, counts / "isoforms.tsv", "--control", "ctrl") == 0
    assert "the counts of 60 rows are summed into 30 genes: 'g00'" in capsys.readouterr().err
    np.testing.assert_allclose(values(counts)["heat"].iloc[:29], [1.0] * 10 + [0.0] * 19, atol=0.02)


def test_small_counts_and_ratios_of_replicates_are_told(counts, capsys):
    table = pd.read_csv(counts / "counts.tsv", sep="\t", index_col=0)
    (table // 50).to_csv(counts / "small.tsv", sep="\t")
    assert dataset(counts, counts / "small.tsv") == 0
    assert "as counts of few reads" in capsys.readouterr().err
    ratios = np.log2(table + 1) - 8
    ratios.to_csv(counts / "ratios.tsv", sep="\t")
    assert dataset(counts, counts / "ratios.tsv") == 0
    told = "6 of 6 treatments look like replicates: 'ctrl_1', 'ctrl_2' of 'ctrl'"
    assert told in capsys.readouterr().err
    groups = "".join(f"{name}\t{name[:-2]}\n" for name in ratios)
    (counts / "s.tsv").write_text(f"sample\tagent\n{groups}")
    replicates = ("--treatment-table", counts / "s.tsv", "--replicate-column", "agent")
    assert dataset(counts, counts / "ratios.tsv", *replicates) == 0
    assert "look like replicates" not in capsys.readouterr().err
    expected = ratios.T.groupby(lambda name: name[:-2]).mean().T
    np.testing.assert_allclose(values(counts), expected, atol=1e-5)


def test_replicates_of_a_table_and_ratios_that_are_no_counts(counts, capsys):
    (counts / "s.tsv").write_text(
        "sample\tagent\n" + "".join(f"{a}_{n}\t{a}\n" for a in ("ctrl", "heat", "salt") for n in "12")
    )
    replicates = ("--treatment-table", counts / "s.tsv", "--replicate-column", "agent")
    assert dataset(counts, counts / "counts.tsv", *replicates, "--control", "ctrl") == 0
    by_table = values(counts)
    assert dataset(counts, counts / "counts.tsv", "--control", "ctrl") == 0
    pd.testing.assert_frame_equal(by_table, values(counts))
    table = pd.read_csv(counts / "counts.tsv", sep="\t", index_col=0)
    np.log2(table + 1).to_csv(counts / "logs.tsv", sep="\t")
    assert dataset(counts, counts / "logs.tsv", "--control", "ctrl") == 1
    assert "--control makes log2 ratios of counts" in capsys.readouterr().err
