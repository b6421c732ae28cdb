"""`bioattn export motifs` on maps that point at planted sites, through the front door."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.interpret.position_maps import upsample
from bioattn.io.files import sha256_of
from bioattn.promoters.promoter_fasta import Promoter, write_promoters
from bioattn.simulate.promoters import simulate_promoters, simulation_settings
from bioattn.simulate.truth import CAUSAL
from bioattn.store.reader import open_attention
from bioattn.store.windows import promoter_samples
from tests import result_files
from tests.making import bioattn
from tests.result_files import cross_site, promoter_layout, write_attribution

LENGTH, POOL, FIELD = 120, 8, 22
EDGES = tuple(range(0, LENGTH + 1, POOL))
GENES = 400


class Planted:
    """Simulated promoters with maps that point at the sites of each treatment."""

    def __init__(self, folder):
        self.simulated = simulate_promoters(
            simulation_settings("standard", genes=GENES, treatments=3, length=LENGTH, decoys=1, seed=3)
        )
        self.folder = folder
        self.genes = self.simulated.gene_ids
        self.treatments = [rule.treatment for rule in self.simulated.rules]
        self.sites = [site for site in self.simulated.sites if site.role == CAUSAL]
        strands = ["+" if number % 2 else "-" for number in range(GENES)]
        starts = np.arange(GENES, dtype=np.int64) * 1000
        self.samples = promoter_samples(self.genes, ["chr1"] * GENES, starts, starts + LENGTH, strands)
        self.fasta = folder / "promoters.fa"
        rows = zip(self.genes, starts.tolist(), strands, self.simulated.codes, strict=True)
        write_promoters(
            self.fasta,
            (Promoter(gene, "chr1", s, s + LENGTH, strand, 0, row) for gene, s, strand, row in rows),
        )

    def where(self, treatment):
        """1 on the bases of the treatment's sites, (genes, length)."""
        rows = {gene: number for number, gene in enumerate(self.genes)}
        marked = np.zeros((GENES, LENGTH))
        for site in self.sites:
            if site.treatment == treatment:
                marked[rows[site.gene_id], site.start : site.end] = 1
        return marked

    def attention(self, name="attention.h5", *, strength=3.0):
        rng = np.random.default_rng(0)
        site = cross_site(EDGES, field=FIELD)
        logits = rng.normal(size=(GENES, 3, 2, len(EDGES) - 1), scale=0.3)
        for number, treatment in enumerate(self.treatments):
            bins = self.where(treatment).reshape(GENES, -1, POOL).mean(axis=2)
            logits[:, number] += strength * bins[:, None]
        weights = np.exp(logits)
        weights /= weights.sum(axis=-1, keepdims=True)
        path = self.folder / name
        layout = promoter_layout([site], self.treatments, LENGTH, input_sha256=sha256_of(self.fasta))
        result_files.write_promoters(path, layout, self.samples, {site.name: weights.astype(np.float32)})
        return path

    def contributions(self, faint=0.0):
        """The first treatment's sites raise, the second's lower; the weights say nothing.

        faint: how much sites of the third lower the first's response, in shares of what its own raise it.
        """
        rng = np.random.default_rng(2)
        site = cross_site(EDGES, field=FIELD, contributes=True)
        values = rng.normal(size=(GENES, 3, 2, len(EDGES) - 1), scale=0.02)
        for number, sign in ((0, 1), (1, -1)):
            where = self.where(self.treatments[number])
            values[:, number] += sign * where.reshape(GENES, 1, -1, POOL).sum(axis=3) / 2
        values[:, 0] -= faint * self.where(self.treatments[2]).reshape(GENES, 1, -1, POOL).sum(axis=3) / 2
        path = self.folder / f"contributions{faint}.h5"
        layout = promoter_layout([site], self.treatments, LENGTH, input_sha256=sha256_of(self.fasta))
        weights = np.full(values.shape, 1 / (len(EDGES) - 1), np.float32)
        arrays = {site.name: {"weights": weights, "contributions": values.astype(np.float32)}}
        result_files.write_promoters(path, layout, self.samples, arrays)
        return path

    def attribution(self):
        rng = np.random.default_rng(1)
        codes = self.simulated.codes
        values = rng.normal(size=(GENES, 3, LENGTH, 4), scale=0.05)
        for number, treatment in enumerate(self.treatments):
            gene, place = np.nonzero(self.where(treatment))
            values[gene, number, place, codes[gene, place]] += self.simulated.rules[number].effect / 8
        values -= values.mean(axis=-1, keepdims=True)
        path, nothing = self.folder / "explain.h5", np.zeros((GENES, 3), np.float32)
        known = {"model_sha256": "ab" * 32, "input_sha256": sha256_of(self.fasta)}
        values = values.astype(np.float32)
        write_attribution(path, self.samples, codes, values, nothing, self.treatments, **known)
        return path


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return Planted(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def exported(planted):
    """Motifs of both kinds of maps."""
    output = planted.folder / "motifs"
    files = [planted.attention(), planted.attribution()]
    assert bioattn("export", "motifs", *files, "--promoters", planted.fasta, "-o", output, "-q") == 0
    return output


def table(path):
    return pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""])


def planted_name(planted, consensus):
    """Which planted motif a consensus is, on either strand."""
    both = {consensus, decode(reverse_complement(encode(consensus)))}
    return next((motif.name for motif in planted.simulated.motifs if motif.consensus in both), None)


def test_planted_motifs_come_out_of_either_map_and_nothing_else(planted, exported):
    motifs = table(exported / "motifs.tsv")
    names = [planted_name(planted, consensus) for consensus in motifs["consensus"]]
    for source in ("attention", "attribution"):
        assert sorted(np.array(names, dtype=object)[motifs["source"] == source]) == [
            "motif1",
            "motif2",
            "motif3",
        ]
    written = read_meme(exported / "motifs.meme")
    assert [motif.name for motif in written.motifs] == motifs["motif"].tolist()
    assert [motif.iupac_consensus for motif in written.motifs] == motifs["consensus"].tolist()
    np.testing.assert_allclose(written.background, base_composition(planted.simulated.codes), atol=1e-5)
    # Each is the motif of its treatment: treatment2 needs motif2.
    assert [name[-1] for name in names] == [treatment[-1] for treatment in motifs["surest_treatment"]]


def test_motifs_of_contributions_have_a_sign(planted, tmp_path):
    files = [planted.contributions(), "--promoters", planted.fasta]
    assert bioattn("export", "motifs", *files, "-o", tmp_path / "motifs", "-q") == 0
    motifs = table(tmp_path / "motifs" / "motifs.tsv").set_index("motif")
    found = {name: planted_name(planted, consensus) for name, consensus in motifs["consensus"].items()}
    assert found == {"raising_1": "motif1", "lowering_1": "motif2"}
    assert motifs["source"].tolist() == ["raising", "lowering"]
    use = table(tmp_path / "motifs" / "treatments.tsv")
    value = use[use["reference"] == "background"].set_index(["treatment", "motif"])["value"]
    first, second, third = planted.treatments
    # Eight bases of one unit each, of which the bins and their smoothing share some with the neighbours.
    assert 3 < value[first, "raising_1"] < 8
    assert -8 < value[second, "lowering_1"] < -3
    assert np.abs([value[third, name] for name in found]).max() < 0.2


def test_what_is_faint_beside_the_other_sign_is_no_motif(planted, tmp_path):
    """Sites that lower a response are a motif, and none among as many sites that raise it ten times more."""
    strong = int(planted.where(planted.treatments[0]).any(axis=1).sum())

    def found(number):
        files = [planted.contributions(faint=0.1), "--promoters", planted.fasta, "--max-seqlets", number]
        assert bioattn("export", "motifs", *files, "-o", tmp_path / str(number), "-q") == 0
        motifs = table(tmp_path / str(number) / "motifs.tsv")
        return {(row.source, planted_name(planted, row.consensus)) for row in motifs.itertuples()}

    assert ("lowering", "motif3") in found(10 * strong)
    assert found(strong) == {("raising", "motif1"), ("lowering", "motif2")}


def test_a_motif_gains_attention_under_its_treatment_only(planted, exported):
    motifs = table(exported / "motifs.tsv").set_index("motif")
    use = table(exported / "treatments.tsv")
    own = [motifs.loc[row.motif, "surest_treatment"] == row.treatment for row in use.itertuples()]
    gained = use[own]
    assert set(gained["reference"]) == {"background", "mean"}
    assert (gained["ratio"].dropna() > 1.5).all()
    assert (gained["q_value"] < 1e-6).all()
    assert (gained["seqlets"] > 50).all()
    others = use[~np.array(own)]
    assert (others["seqlets"] == 0).all()
    signs = use["motif"].str.startswith("attribution") & (use["reference"] == "background")
    assert use["ratio"].isna().equals(signs)
    assert (others["ratio"].dropna() < 1.2).all()
    # The sign of what a motif does is that of its treatment's effect.
    effects = {rule.treatment: rule.effect for rule in planted.simulated.rules}
    signed = gained[gained["motif"].str.startswith("attribution")]
    assert (np.sign(signed["value"]) == np.sign(signed["treatment"].map(effects))).all()


def test_values_and_p_values_equal_a_plain_loop(planted, exported):
    use = table(exported / "treatments.tsv").set_index(["treatment", "motif", "reference"])
    motif = read_meme(exported / "motifs.meme").motifs[0]
    codes = planted.simulated.codes
    hits = find_motif_hits(codes, [motif], background=base_composition(codes), p_value=1e-4)
    hits = hits.drop_duplicates(["row", "start"])
    with open_attention(planted.folder / "attention.h5") as attention:
        maps = {
            name: LENGTH
            * upsample(
                attention.weights("promoter.cross.0", treatment=name).mean(axis=1), EDGES, LENGTH, "gaussian"
            )
            for name in planted.treatments
        }
    mean = sum(maps.values()) / 3
    for treatment, values in maps.items():
        rows = []
        for gene, some in hits.groupby("row"):
            of_gene = [
                [each[gene, hit.start : hit.end].mean() for each in (values, mean)]
                + [values[:, hit.start : hit.end].mean()]
                for hit in some.itertuples()
            ]
            rows.append(np.mean(of_gene, axis=0))
        own, reference, usual = np.array(rows).T
        for name, other in (("mean", reference), ("background", usual)):
            found = use.loc[(treatment, motif.name, name)]
            assert found["promoters"] == len(rows)
            assert found["value"] == pytest.approx(own.mean(), rel=1e-4)
            assert found["reference_value"] == pytest.approx(other.mean(), rel=1e-4)
            assert found["ratio"] == pytest.approx(own.mean() / other.mean(), rel=1e-4)
            assert found["gaining"] == pytest.approx((own > other).mean(), rel=1e-4)
            assert found["p_value"] == pytest.approx(wilcoxon(own - other, method="approx").pvalue, rel=1e-3)


def test_edges_are_the_planted_sites(planted, exported):
    motifs = table(exported / "motifs.tsv").set_index("motif")
    edges = table(exported / "edges.tsv")
    truth = {(site.gene_id, site.treatment, site.start, site.end): site.strand for site in planted.sites}
    for source in ("attention", "attribution"):
        of_source = edges[edges["motif"].map(motifs["source"]) == source]
        found = {(row.gene_id, row.treatment, row.start, row.end): row for row in of_source.itertuples()}
        assert len(found) == len(of_source)
        known = set(found) & set(truth)
        assert len(known) > 0.85 * len(found)
        assert len(known) > 0.88 * len(truth)
    row = next(row for row in edges.itertuples() if row.gene_id == planted.genes[6])
    first = int(planted.samples.columns["start"][6])  # on the - strand
    assert (row.genomic_start, row.genomic_end) == (first + LENGTH - row.end, first + LENGTH - row.start)
    assert row.genomic_strand == {"+": "-", "-": "+"}[row.strand]
    codes = planted.simulated.codes[6, row.start : row.end]
    read = decode(codes if row.strand == "+" else reverse_complement(codes))
    consensus = motifs.loc[row.motif, "consensus"]
    assert sum(a == b for a, b in zip(read, consensus, strict=True)) >= len(consensus) - 2


def test_against_a_treatment_seeks_what_gains(planted, tmp_path):
    attention = planted.attention("against.h5")
    output = tmp_path / "motifs"
    arguments = ["--promoters", planted.fasta, "--against", planted.treatments[0], "-o", output, "-q"]
    assert bioattn("export", "motifs", attention, *arguments) == 0
    found = {planted_name(planted, consensus) for consensus in table(output / "motifs.tsv")["consensus"]}
    assert found == {"motif2", "motif3"}
    use = table(output / "treatments.tsv")
    assert set(use["reference"]) == {"background", planted.treatments[0]}
    assert not ((use["treatment"] == planted.treatments[0]) & (use["reference"] != "background")).any()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{attention}", "{attention}", "--promoters", "{fasta}"], 1, "two attention files"),
        (["{attention}", "--promoters", "{fasta}", "--against", "heat"], 1, "--against 'heat'"),
        (["{attribution}", "--heads", "0"], 1, "--heads chooses in attention"),
        (["{attention}", "--promoters", "{few}"], 1, "lacks 399 of 400 promoters"),
        (["{attention}", "--promoters", "{moved}"], 1, "not the window that the model saw"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(planted, tmp_path, capsys, arguments, code, message):
    attention = planted.folder / "bad.h5"
    if not attention.exists():
        planted.attention("bad.h5")
    attribution = planted.folder / "explain.h5"
    if not attribution.exists():
        planted.attribution()
    lines = planted.fasta.read_text().splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines[1:], start=1) if line.startswith(">"))
    (tmp_path / "few.fa").write_text("".join(lines[:end]))
    (tmp_path / "moved.fa").write_text("".join(lines).replace("chr1:0-120", "chr2:0-120"))
    names = {
        "attention": attention,
        "attribution": attribution,
        "fasta": planted.fasta,
        "few": tmp_path / "few.fa",
        "moved": tmp_path / "moved.fa",
    }
    before = sorted(tmp_path.iterdir())
    filled = [argument.format(**names) for argument in arguments]
    assert bioattn("export", "motifs", *filled, "-o", tmp_path / "out") == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert sorted(tmp_path.iterdir()) == before
