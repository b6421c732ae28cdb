"""`bioattn explain motifs` through the front door: results whose answer is known, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest

from bioattn.formats.nucleotides import decode, encode
from bioattn.io.files import sha256_of
from bioattn.store.windows import promoter_samples
from bioattn_cli.main import main
from tests.result_files import cross_site, promoter_layout, write_attribution, write_promoters

LENGTH, NUMBER, EDGES = 96, 300, tuple(range(0, 97, 8))
TREATMENTS = ["heat 5 min", "heat 20 min", "cold"]
RAISES, LOWERS, DECOY = "TGACTC", "GATGAG", "CGTACT"

EXPECTED = f"""factor\tjaspar_id\tconsensus\tcondition_group\tdirection
raises\tM1\t{RAISES}\theat\tup
lowers\t\t{LOWERS}\theat\tdown (strongly)
raises\tM1\tTGACTC-like\tcold\tnone
decoy\t\t{DECOY}\theat\tnone
raises\t\t{RAISES}\theat shock\tup
"""
GROUPS = "treatment\tgroup\nheat 5 min\theat\nheat 20 min\theat\ncold\tcold\nnever made\tother\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with promoters, attention on `RAISES` and `LOWERS` in heat, contributions and attribution of either
    sign."""
    folder = tmp_path_factory.mktemp("motifs")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, size=(NUMBER, LENGTH)).astype(np.uint8)
    sign = np.zeros((NUMBER, LENGTH))
    for number, (word, value) in enumerate([(RAISES, 1), (LOWERS, -1), (DECOY, 0)]):
        for row in np.flatnonzero(rng.random(NUMBER) < 0.5):
            start = int(rng.integers(2, 22)) + 32 * number
            codes[row, start : start + len(word)] = encode(word)
            sign[row, start : start + len(word)] = value
    ids = [f"gene{number}" for number in range(NUMBER)]
    fasta = folder / "promoters.fa"
    fasta.write_text("".join(f">{name}\n{decode(row)}\n" for name, row in zip(ids, codes, strict=True)))
    samples = promoter_samples(ids, [""] * NUMBER, np.full(NUMBER, -1), np.full(NUMBER, -1), ["."] * NUMBER)
    known = {"model_sha256": "ab" * 32, "input_sha256": sha256_of(fasta)}
    bins = np.abs(sign).reshape(NUMBER, -1, 8).mean(axis=2)[:, None, None]
    heat = np.array([[1], [1], [0]])
    logits = rng.normal(0, 0.3, size=(NUMBER, 3, 2, LENGTH // 8)) + 3 * heat[:, None] * bins
    weights = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    signed_bins = sign.reshape(NUMBER, -1, 8).sum(axis=2)[:, None, None]
    contributions = rng.normal(0, 0.3, size=weights.shape) + heat[:, None] * signed_bins / 2
    site = cross_site(EDGES, field=8, contributes=True)
    layout = promoter_layout([site], TREATMENTS, LENGTH, **known)
    arrays = {"weights": weights.astype(np.float32), "contributions": contributions.astype(np.float32)}
    write_promoters(folder / "attention.h5", layout, samples, {site.name: arrays})
    values = rng.normal(0, 0.2, size=(NUMBER, 3, LENGTH, 4))
    present = codes[..., None] == np.arange(4)
    values += (heat * sign[:, None])[..., None] * (present[:, None] - 0.25)
    values -= values.mean(axis=-1, keepdims=True)
    nothing = np.zeros((NUMBER, 3), np.float32)
    values = values.astype(np.float32)
    write_attribution(folder / "explain.h5", samples, codes, values, nothing, TREATMENTS, **known)
    (folder / "expected.tsv").write_text(EXPECTED)
    (folder / "groups.tsv").write_text(GROUPS)
    rows = "\n".join(" ".join("0.97" if base == letter else "0.01" for base in "ACGT") for letter in RAISES)
    (folder / "motifs.meme").write_text(
        f"MEME version 4\n\nMOTIF M1 X\nletter-probability matrix: alength= 4 w= 6 nsites= 100 E= 0\n{rows}\n"
    )
    return folder


def explain(folder, output, *arguments, results=("attention.h5",)):
    return main(
        [
            *("explain", "motifs", *(str(folder / name) for name in results), "-o", str(output)),
            *("--expected", str(folder / "expected.tsv"), "--shuffles", "25", "-q", *arguments),
        ]
    )


def test_what_was_planted_is_found_and_the_rest_is_silent(made, tmp_path):
    output = tmp_path / "motifs.tsv"
    code = explain(
        made,
        output,
        *("--motifs", str(made / "motifs.meme"), "--treatment-groups", str(made / "groups.tsv")),
        *("--contrast", "heat:cold"),
        results=("attention.h5", "explain.h5"),
    )
    assert code == 0
    table = pd.read_csv(output, sep="\t", keep_default_na=False)
    signals = ["attention", "contributions", "attribution"]
    assert table["signal"].drop_duplicates().tolist() == signals
    plain = table[table["against"] == "background"]
    assert plain["passed"].tolist() == ["yes"] * 12
    assert plain["condition_group"].tolist() == ["heat", "heat", "cold", "heat"] * 3
    assert plain["direction"].iloc[1] == "down (strongly)"
    assert plain["matched_by"].tolist()[:3] == [RAISES, LOWERS, "M1"]
    assert (plain["shuffled"] == 25).all()
    signed = plain[plain["signal"] == "attribution"]["effect"].tolist()
    assert signed[0] == pytest.approx(0.75 * 6, abs=0.6)  # some sites are chance
    assert signed[1] == pytest.approx(-0.75 * 6, abs=0.6)
    # A site fills six of the eight bases of a bin, or parts of two.
    contributed = plain[plain["signal"] == "contributions"]["effect"].tolist()
    assert 2.5 < contributed[0] < 0.75 * 6
    assert -2.5 > contributed[1] > -0.75 * 6
    contrast = table[table["against"] == "cold"]
    assert contrast["passed"].tolist() == ["yes", "yes", ""] * 3  # of no answer, nothing is expected there
    record = json.loads((tmp_path / "bioattn-records/motifs.tsv.json").read_text())
    assert record["missing_conditions"] == ["heat shock"]
    assert [
        (each["signal"], each["expected_passed"], each["expected"], each["none_passed"], each["none"])
        for each in record["signals"]
    ] == [(signal, 2, 2, 2, 2) for signal in signals]
    assert all(each["shuffled_passing"] <= 0.05 and each["specific"] == 2 for each in record["signals"])


def test_the_same_again_and_over_some_genes(made, tmp_path):
    genes = tmp_path / "genes.txt"
    genes.write_text("".join(f"gene{number}\n" for number in range(0, NUMBER, 2)))
    shared_options = ("--motifs", str(made / "motifs.meme"), "--treatment-groups", str(made / "groups.tsv"))
    outputs = [tmp_path / f"{number}.tsv" for number in range(3)]
    for output in outputs[:2]:
        assert explain(made, output, *shared_options, "--genes", str(genes), results=("explain.h5",)) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    table = pd.read_csv(outputs[0], sep="\t")
    assert 50 < table["promoters"].iloc[0] < 100  # of 150, half hold the motif
    fasta = ("--promoters", str(made / "promoters.fa"))
    assert explain(made, outputs[2], *shared_options, *fasta, "--genes", str(genes)) == 0
    again = pd.read_csv(outputs[2], sep="\t")
    assert again["promoters"].tolist() == 2 * table["promoters"].tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 1, "matrix 'M1' of 'raises' needs a motif database; give --motifs"),
        (("--contrast", "heat"), 2, "--contrast heat: give two different conditions as CONDITION:OTHER"),
        (("--contrast", "heat:warm"), 1, "of 'heat', 'cold'"),
        (("--genes", "nobody"), 1, "--genes 'nobody': "),
        (("--match", "sound"), 2, "--match"),
    ],
)
def test_requests_that_cannot_be_met(made, tmp_path, capsys, arguments, code, sentence):
    groups = ("--treatment-groups", str(made / "groups.tsv"))
    assert explain(made, tmp_path / "out.tsv", *groups, *arguments, results=("explain.h5",)) == code
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_files_that_do_not_belong_together(made, tmp_path, capsys):
    def refused(*arguments, results=("attention.h5",)):
        assert explain(made, tmp_path / "out.tsv", *arguments, results=results) == 1
        return capsys.readouterr().err

    groups = tmp_path / "groups.tsv"
    groups.write_text("treatment\tgroup\ncold\tice\n")
    assert "none of its conditions" in refused(
        *("--promoters", str(made / "promoters.fa"), "--treatment-groups", str(groups))
    )
    groups.write_text("treatment\tgroup\nheat\theat\n")
    assert "names none of the treatments" in refused(
        "--treatment-groups", str(groups), results=("explain.h5",)
    )
    groups.write_text("treatment\tclass\nheat\theat\n")
    assert "has no column 'group'" in refused("--treatment-groups", str(groups), results=("explain.h5",))
    assert "not an HDF5 file" in refused(results=("expected.tsv",))
