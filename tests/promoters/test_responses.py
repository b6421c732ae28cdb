"""Tables of responses and of treatments."""

import gzip
import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.promoters.choices import Layout, ResponseColumns
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.responses import ResponseSource, file_stem, read_responses, response_source
from bioattn.promoters.treatments import average_features, named_treatments, read_treatment_table

DESEQ2 = (
    ',"baseMean","log2FoldChange","lfcSE","stat","pvalue","padj"\n'
    '"AT1G01010",10.5,1.5,0.2,7.5,1e-10,1e-8\n'
    '"AT1G01020",0,NA,NA,NA,NA,NA\n'
    '"AT1G01030",3.1,-2.25,0.5,-4.5,0.004,NA\n'
)
LIMMA = (
    "ID\tlogFC\tAveExpr\tt\tP.Value\tadj.P.Val\tB\ng1\t0.5\t8\t3\t0.01\t0.04\t1\ng2\t-1\t8\t3\t0.2\t0.5\t1\n"
)
EDGER = "logFC\tlogCPM\tF\tPValue\tFDR\ng1\t0.5\t8\t3\t0.01\t0.04\ng2\t-1\t8\t3\t0.2\t0.5\n"


def write(tmp_path, text, name="r.tsv"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


VALUE = st.one_of(st.none(), st.floats(-100, 100, allow_nan=False, width=32))


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(VALUE, min_size=width, max_size=width), min_size=1, max_size=6)
    ),
    st.sampled_from(["\t", ","]),
)
def test_wide_and_long_of_one_table_agree_with_pandas(tmp_path_factory, rows, delimiter):
    folder = tmp_path_factory.mktemp("r")
    frame = pd.DataFrame(
        [[np.nan if v is None else v for v in row] for row in rows],
        index=[f"g{i}" for i in range(len(rows))],
        columns=[f"t{i}" for i in range(len(rows[0]))],
    )
    frame.to_csv(folder / "wide.csv", sep=delimiter, index_label="gene")
    long = frame.rename_axis("gene").reset_index().melt("gene", var_name="treatment", value_name="value")
    long.to_csv(folder / "long.csv", sep=delimiter, index=False)
    wide_read, long_read = (read_responses([folder / name]) for name in ("wide.csv", "long.csv"))
    assert wide_read.gene_ids == long_read.gene_ids == list(frame.index)
    assert wide_read.treatments == long_read.treatments == list(frame.columns)
    np.testing.assert_allclose(wide_read.values, frame.to_numpy())
    np.testing.assert_allclose(long_read.values, frame.to_numpy())


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.floats(-9, 9, allow_nan=False, width=32)),
        min_size=1,
        max_size=20,
    )
)
def test_repeated_values_are_averaged_as_pandas_does(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("r") / "long.tsv"
    path.write_text("gene\ttreatment\tvalue\n" + "".join(f"{g}\t{t}\t{v!r}\n" for g, t, v in rows))
    read = read_responses([path])
    frame = pd.DataFrame(rows, columns=["gene", "treatment", "value"])
    expected = frame.pivot_table(index="gene", columns="treatment", values="value", aggfunc="mean")
    expected = expected.reindex(index=read.gene_ids, columns=read.treatments)
    np.testing.assert_allclose(read.values, expected.to_numpy(), atol=1e-12)
    counts = frame.groupby(["gene", "treatment"]).size().groupby("gene").max()
    assert read.duplicated == {gene: n for gene, n in counts.items() if n > 1}


def test_deseq2_with_row_names(tmp_path):
    read = read_responses([write(tmp_path, DESEQ2, "drought.csv.gz")])
    assert read.treatments == ["drought"]
    assert read.gene_ids == ["AT1G01010", "AT1G01020", "AT1G01030"]
    np.testing.assert_array_equal(read.values[:, 0], [1.5, np.nan, -2.25])
    np.testing.assert_array_equal(read.padj[:, 0], [1e-8, np.nan, np.nan])


@pytest.mark.parametrize("text", [LIMMA, EDGER, EDGER.replace("\t", " ")])
def test_limma_and_edger(tmp_path, text):
    read = read_responses([ResponseSource(write(tmp_path, text), "salt")])
    assert (read.treatments, read.gene_ids) == (["salt"], ["g1", "g2"])
    np.testing.assert_array_equal(read.values[:, 0], [0.5, -1])
    np.testing.assert_array_equal(read.padj[:, 0], [0.04, 0.5])


def test_contrasts_wide_and_long_tables_join(tmp_path):
    sources = [
        write(tmp_path, DESEQ2, "drought.csv"),
        write(tmp_path, "gene\theat\nAT1G01030\t4\nnew\t5\n", "wide.tsv"),
        write(tmp_path, "gene\ttreatment\tvalue\nnew\tcold\t6\n", "long.tsv"),
    ]
    read = read_responses(sources)
    assert read.treatments == ["drought", "heat", "cold"]
    assert read.gene_ids[-1] == "new"
    np.testing.assert_array_equal(read.values[2], [-2.25, 4, np.nan])
    np.testing.assert_array_equal(read.values[3], [np.nan, 5, 6])


def test_mean_of_two_has_the_largest_p(tmp_path):
    text = "gene\tcontrast\tlogFC\tlfcSE\tpadj\na\theat\t1\t0.3\t0.2\na\theat\t3\t0.4\t0.1\n"
    read = read_responses([write(tmp_path, text)])
    assert read.values[0, 0] == 2
    assert read.padj[0, 0] == 0.2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gene\theat\tsalt\na\t1\t2\nb\t1\thigh\nc\t1\t2\n", "r.tsv:3, column 'salt': 'high'"),
        ("gene\theat\theat\na\t1\t2\n", "the column 'heat' occurs more than once (columns 2, 3)"),
        ("gene\theat\n", "has a header but no rows"),
        ("a\t0.53\t1.5\nb\t0.1\t0.2\n", "the first line looks like data"),
        ("a\t0.53\nb\t0.1\n", "the first line looks like data"),
        ("N_unmapped\t9\t9\t9\na\t1\t0\t1\n", "the first line looks like data"),
        ("gene\theat\tpadj.x\na\t1\t0.1\n", "the column 'padj.x' looks like a p value"),
        ("Name\tLength\tTPM\tNumReads\na\t900\t1.5\t8\n", "holds quantities of one sample ('TPM', 'NumR"),
        ("1_n,1_l,2_n,2_l\na,1,b,2\nb,1,c,2\nc,1,a,2\n", "'1_n' and '2_n' name different genes in a row"),
        ("gene\theat\tsalt\na\t1\tlow\nb\t1\tlow\nc\t1\t2\n", "the column 'salt' holds text ('low')"),
        ("gene\tlogFC\tFDR\na\t1\t1.5\n", "r.tsv:2, column 'FDR': 1.5 is above 1"),
    ],
)
def test_bad_tables_are_refused_with_their_place(tmp_path, text, sentence):
    with pytest.raises(FormatError) as caught:
        read_responses([write(tmp_path, text)])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "gene_id\tsymbol\theat\tsalt\nb\tABC\t1\t2\na\tDEF\t3\t4\n",
        "gene_id\tentrez\theat\tsalt\tdescription\nb\tchr1\t1\t2\tkinase\na\tchr2\t3\t4\t\n",
        "gene_id\tgene_name\theat\nb\tABC\t1\na\tDEF\t3\n",
        "gene_id\tfunction\theat\nb\tkinase\t1\na\tprotease\t3\n",
        "Geneid\tChr\tStart\tEnd\tStrand\tLength\theat\nb\t1\t5\t9\t+\t4\t1\na\t1;1\t5;7\t6;9\t+;+\t3\t3\n",
        "\tUnnamed: 0\tgene\tentrezgene_id\theat\tsalt\n0\t0\tb\t12\t1\t2\n1\t1\ta\t13\t3\t4\n",
    ],
)
def test_other_columns_of_names_and_text_are_no_treatments(tmp_path, text):
    read = read_responses([write(tmp_path, text)])
    assert list(read.treatments) == ["heat", "salt"][: read.values.shape[1]]
    np.testing.assert_array_equal(read.values[:, 0], [1, 3])
    assert list(read.gene_ids) == ["b", "a"]


def test_names_of_contrasts(tmp_path):
    assert response_source("heat=a.tsv") == ResponseSource(response_source("a.tsv").path, "heat")
    odd = write(tmp_path, "x", "a=b.tsv")
    assert response_source(str(odd)) == ResponseSource(odd, None)
    assert file_stem(odd.with_name("heat.vs.mock.txt.xz")) == "heat.vs.mock"


GENES = [f"g{number}" for number in range(6)]
UP, DOWN = [1 + number / 10 for number in range(6)], [-1 - number / 10 for number in range(6)]


def stacked(*blocks):
    """Contrasts one below the other; a block has its columns, and values or names of its genes."""
    rows = [pd.DataFrame({"gene": GENES, **block}) for block in blocks]
    return pd.concat(rows, ignore_index=True)


def check(path, treatments, columns=None, promoters=None):
    read = read_responses([path], columns, promoters)
    assert dict(zip(read.treatments, read.values.T.round(6).tolist(), strict=True)) == treatments
    assert not read.duplicated


@pytest.mark.parametrize("name", ["comparison_name", "source", "cluster", "minutes"])
def test_contrasts_below_one_another_are_told_apart_by_any_column(tmp_path, name):
    first, second = ("15", "30") if name == "minutes" else ("heat", "cold")
    table = stacked(
        {"log2FoldChange": UP, "padj": 0.1, "regulation": "up", "significant": "yes", name: first},
        {"log2FoldChange": DOWN, "padj": 0.1, "regulation": "down", "significant": "no", name: second},
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    check(tmp_path / "t.csv", {first: UP, second: DOWN})


def test_two_columns_tell_apart_where_one_does_not(tmp_path):
    pairs = [("q1", "q2", UP), ("q1", "q3", DOWN), ("q2", "q3", UP)]
    columns = ({"sample_1": a, "sample_2": b, "status": "OK", "log2(fold_change)": v} for a, b, v in pairs)
    table = stacked(*columns).rename(columns={"gene": "gene_id"})
    table["q_value"] = 0.5
    table = table.astype({"log2(fold_change)": object})
    table.loc[0, "log2(fold_change)"], table.loc[1, "log2(fold_change)"] = "inf", "-inf"
    table.loc[2, "status"], table.loc[3, "log2(fold_change)"] = "NOTEST", "1.79769e+308"
    table.to_csv(tmp_path / "gene_exp.diff", sep="\t", index=False)
    read = read_responses([tmp_path / "gene_exp.diff"])
    assert read.treatments == ["q1_q2", "q1_q3", "q2_q3"]
    np.testing.assert_allclose(read.values, np.transpose([[np.nan] * 4 + UP[4:], DOWN, UP]))


def test_long_tables_of_doses_times_and_replicates(tmp_path):
    columns = {"dose": (1, 5), "minutes": (10, 30), "replicate": (1, 2)}
    grid = pd.MultiIndex.from_product([GENES, *columns.values()], names=["gene", *columns]).to_frame(
        index=False
    )
    grid["value"] = grid["dose"] * grid["minutes"] * grid["gene"].str[1:].astype(int) + grid["replicate"]
    grid.to_csv(tmp_path / "t.csv", index=False)
    read = read_responses([tmp_path / "t.csv"])
    expected = grid.pivot_table(index="gene", columns=["dose", "minutes"], values="value", aggfunc="mean")
    assert read.treatments == ["1_10", "1_30", "5_10", "5_30"]
    np.testing.assert_allclose(read.values, expected.to_numpy())


def test_samples_of_a_treatment_are_replicates_and_probes_of_a_gene_no_treatments(tmp_path):
    rows = [(gene, agent, f"{agent}_{n}", n) for gene in "abc" for agent in ("heat", "cold") for n in (1, 3)]
    frame = pd.DataFrame(rows, columns=["gene", "condition", "sample", "value"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    read = read_responses([tmp_path / "t.csv"])
    assert (read.treatments, np.unique(read.values).tolist()) == (["heat", "cold"], [2])
    (tmp_path / "p.csv").write_text("gene,probe,heat\na,p1,1\na,p2,3\nb,p3,2\n")
    read = read_responses([tmp_path / "p.csv"])
    assert (read.treatments, read.values.tolist()) == (["heat"], [[2], [2]])
    spots = pd.DataFrame({"Block": 1, "Row": [1, 2, 3, 4], "Column": [1, 2, 1, 2], "ProbeName": list("pqrs")})
    spots = spots.assign(SystematicName=list("aabb"), logFC=[1, 3, 2, 4], **{"adj.P.Val": 0.1})
    spots.to_csv(tmp_path / "agilent.csv", index=False)
    read = read_responses([tmp_path / "agilent.csv"], promoters=GeneNames(["a", "b"]))
    assert (read.treatments, read.values.tolist()) == (["agilent"], [[2], [3]])


def test_symbols_that_come_again_are_no_contrasts(tmp_path):
    frame = pd.DataFrame({"gene": [f"g{i}" for i in range(60)], "logFC": 1.0, "FDR": 0.1, "family": "x"})
    frame = pd.concat(
        [frame, pd.DataFrame({"gene": ["g7"], "logFC": 3, "FDR": 0.1, "family": "y"}), frame[8:20]]
    )
    frame.iloc[-12:, 0] = [f"h{i}" for i in range(12)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    read = read_responses([tmp_path / "t.csv"])
    assert read.treatments == ["t"]
    assert read.values[7] == 2
    assert read.duplicated == {"g7": 2}


def test_values_beyond_a_limit_are_the_limit_and_told(tmp_path, caplog):
    (tmp_path / "t.csv").write_text("gene,log2FoldChange,padj\na,1.5,<2e-16\nb,>10,0.3\nc,<-3.5,< 0.001\n")
    read = read_responses([tmp_path / "t.csv"])
    assert read.values[:, 0].tolist() == [1.5, 10, -3.5]
    assert read.padj[:, 0].tolist() == [2e-16, 0.3, 0.001]
    assert "2 cells of 'log2FoldChange' such as '>10' are read as the limit itself" in caplog.text
    (tmp_path / "w.csv").write_text("gene,heat,cold\na,>10,1\nb,>10,2\nc,1,3\n")
    check(tmp_path / "w.csv", {"heat": [10, 10, 1], "cold": [1, 2, 3]})


def test_tables_of_noiseq_and_weights_of_cluster(tmp_path):
    noiseq = pd.DataFrame({"heat_mean": [8, 2], "mock_mean": [4, 4], "prob": [0.9, 0.8]}, index=["a", "b"])
    noiseq.assign(log2FC=[1, -1]).to_csv(tmp_path / "bio.txt", sep="\t")
    noiseq.assign(M=[1, -1], ranking=[3, -3]).to_csv(tmp_path / "sim.txt", sep="\t")
    (tmp_path / "g.pcl").write_text("YORF\tNAME\tGWEIGHT\theat\na\tA\t1\t1\nb\tB\t1\t-1\n")
    for name, treatment in (("bio.txt", "bio"), ("g.pcl", "heat")):
        read = read_responses([tmp_path / name])
        assert (read.treatments, read.values.tolist()) == ([treatment], [[1], [-1]])
    with pytest.raises(FormatError, match="the column 'prob' looks like a p value"):
        read_responses([tmp_path / "sim.txt"])


def test_limits_of_cufflinks_are_no_treatments(tmp_path):
    columns = {"tracking_id": ["a", "b"], "class_code": "-", "nearest_ref_id": "-", "tss_id": "-"}
    columns |= {"heat_FPKM": [1, 2], "heat_conf_lo": [0, 1], "heat_conf_hi": [2, 3], "heat_status": "OK"}
    pd.DataFrame(columns).to_csv(tmp_path / "genes.fpkm_tracking", sep="\t", index=False)
    assert read_responses([tmp_path / "genes.fpkm_tracking"]).treatments == ["heat_FPKM"]


def test_effects_alone_are_a_contrast(tmp_path):
    (tmp_path / "t.csv").write_text("gene,log2FC\na,1\nb,-2\n")
    check(tmp_path / "t.csv", {"t": [1, -2]})
    (tmp_path / "t.csv").write_text("gene,log2FC,lfcSE\na,1,0.2\nb,-2,0.3\n")
    check(tmp_path / "t.csv", {"t": [1, -2]})


def test_sleuth(tmp_path):
    (tmp_path / "t.csv").write_text("target_id,pval,qval,b,se_b,mean_obs\na,0.01,0.02,1.5,0.3,7\n")
    read = read_responses([tmp_path / "t.csv"])
    assert (read.values, read.padj) == (1.5, 0.02)


@pytest.mark.parametrize("second", ["{}1", "{}.1"])
def test_row_names_that_r_made_unique(tmp_path, second):
    table = stacked({"logFC": UP, "FDR": 0.1, "contrast": "a"}, {"logFC": DOWN, "FDR": 0.1, "contrast": "b"})
    table.index = [*GENES, *map(second.format, GENES)]
    for name, frame in (("with.csv", table), ("without.csv", table.drop(columns="gene"))):
        frame.to_csv(tmp_path / name)
        check(tmp_path / name, {"a": UP, "b": DOWN})


def test_contrasts_that_no_column_tells_apart_are_refused(tmp_path):
    stacked({"logFC": UP, "FDR": 0.1}, {"logFC": DOWN, "FDR": 0.1}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FormatError, match=r"t.csv: 'g0' has different values .* lines '2', '8'"):
        read_responses([tmp_path / "t.csv"])
    said = ResponseColumns(layout=Layout.CONTRAST)
    assert not read_responses([tmp_path / "t.csv"], said).values.any()  # the mean, as asked for


def test_the_column_of_genes_is_the_one_that_has_names_of_promoters(tmp_path):
    (tmp_path / "t.csv").write_text("entrez,logFC,FDR,symbol,id\n11,1,0.1,TFC3,-\n12,2,0.1,vps8,YAL002W\n")
    promoters = GeneNames(["YAL001C", "YAL002W"], ["TFC3", "VPS8"])
    assert read_responses([tmp_path / "t.csv"], None, promoters).gene_ids == ["TFC3", "vps8"]


def test_names_that_excel_made_dates_of_are_told(tmp_path, caplog):
    names = ["1-Mar", "Sep-02", "2024-12-01 00:00:00", "YAL001C", "sep-1", "HLA-DR1"]
    (tmp_path / "t.csv").write_text("gene,heat\n" + "".join(f"{name},1\n" for name in names))
    with caplog.at_level("WARNING", "bioattn"):
        read_responses([tmp_path / "t.csv"])
    assert "3 gene names became a date in Excel: '1-Mar', 'Sep-02', '2024-12-01 00:00:00';" in caplog.text


@pytest.mark.shared
def test_gasch_2000_agrees_with_pandas(shared):
    path = shared / "data/yeast/gasch2000_log2ratio.tsv.gz"
    read = read_responses([path])
    frame = pd.read_csv(path, sep="\t", index_col=0)
    assert read.gene_ids == list(frame.index)
    assert read.treatments == list(frame.columns)
    np.testing.assert_array_equal(read.values, frame.to_numpy())


def read(tmp_path, text):
    path = tmp_path / "t.tsv"
    path.write_text(text, encoding="utf-8")
    return read_treatment_table(path)


def test_numbers_and_categories(tmp_path):
    table = read(tmp_path, "name\tagent\tdose\tinhibitor\nb\tNaCl\t0.5\tnone\na\t\tNA\t-\n")
    assert table.names == ["b", "a"]
    assert table.columns == ["agent", "dose", "inhibitor"]
    assert [table.is_numeric(column) for column in table.columns] == [False, True, False]
    assert list(table.frame["agent"]) == ["NaCl", ""]
    assert list(table.frame["inhibitor"]) == ["none", "-"]  # "no inhibitor" is something said
    np.testing.assert_array_equal(table.frame["dose"], [0.5, np.nan])


def test_semicolon_tables_may_have_decimal_commas(tmp_path):
    table = read(tmp_path, "name;agent;dose\na;1,10-phenanthroline;0,5\nb;DMSO;10\n")
    assert list(table.frame["agent"]) == ["1,10-phenanthroline", "DMSO"]
    np.testing.assert_array_equal(table.frame["dose"], [0.5, 10.0])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name\tx\n", "has a header but no rows"),
        ("name\tx\na\t1\na\t2\n", "t.tsv:3: the treatment 'a' has a row already (line 2)"),
        ("name\tx\n\t1\n", "t.tsv:2: the treatment has no name"),
        ("name\tx\tx\na\t1\t2\n", "columns 2 and 3 are both called 'x' and differ"),
        ("name\tx\t\na\t1\t2\n", "column 3 has values but no name"),
        ("name\tdose\na\t1 M\nb\t0,5 mM\n", "t.tsv:3, column 'dose': '0,5 mM' has a comma (decimal comma or"),
        ("name\tdose\na\t0,5\nb\t1.5\n", "t.tsv:2, column 'dose': '0,5' has a comma (decimal comma or"),
        ("name\tdose\na\tinf\n", "t.tsv:2, column 'dose': the value inf is infinite"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, sentence):
    with pytest.raises(FormatError) as caught:
        read(tmp_path, text)
    assert sentence in str(caught.value)


def test_equal_columns_of_one_name_are_merged_and_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "bioattn"):
        table = read(tmp_path, "name\tx\ty\tx\t\na\t1\t2\t1\t\n")
    assert table.columns == ["x", "y"]
    assert "columns 2 and 4 are both called 'x'" in caplog.text


@given(
    st.lists(
        st.tuples(st.sampled_from("pqr"), st.sampled_from("xy"), st.sampled_from([1.0, 2.0, np.nan])),
        min_size=1,
    )
)
def test_average_features_keeps_what_groups_agree_on(rows):
    frame = pd.DataFrame(
        {
            "letter": pd.Series([row[1] for row in rows], dtype=object),
            "number": pd.Series([row[2] for row in rows], dtype=np.float64),
        }
    )
    frame.index = pd.Index([f"s{i}" for i in range(len(rows))], dtype=object)
    table = named_treatments(list(frame.index))
    averaged, differing = average_features(type(table)(frame), [row[0] for row in rows])
    assert averaged.names == list(dict.fromkeys(row[0] for row in rows))
    for position, column in ((1, "letter"), (2, "number")):
        values = {group: {str(row[position]) for row in rows if row[0] == group} for group in averaged.names}
        agree = all(len(found) == 1 for found in values.values())
        assert (column in averaged.columns) == agree == (column not in differing)
        named = [text.split(" of ")[0] for text in differing.get(column, [])]
        assert named == [repr(group) for group in averaged.names if len(values[group]) > 1]
        if agree:
            assert [{str(value)} for value in averaged.frame[column]] == list(values.values())
            assert averaged.frame[column].dtype == frame[column].dtype
