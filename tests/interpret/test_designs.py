"""The check of designs: its oracle, distances and simple designers against plain loops, and its verdicts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import RidgeCV

from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.interpret.design_check import Judge, ModelOracle, check_designs, model_oracle, read_designs
from bioattn.interpret.design_oracles import (
    PENALTIES,
    KmerOracle,
    baseline_designs,
    kmer_counts,
    kmer_distance,
    nearest,
)
from bioattn.interpret.design_record import DesignsCheck
from bioattn.io.files import sha256_of
from bioattn.models.family import load_runner
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.promoters.promoter_fasta import DesignRequest, describe_request
from tests.making import bioattn

MOTIF, LENGTH = "GATTACAG", 60
BINARY = ("--task", "binary", "--threshold", 0.5)


def promoters(rng, number):
    """Random promoters, about half of which hold the motif of heat."""
    codes = rng.integers(0, 4, (number, LENGTH)).astype(np.uint8)
    heat = rng.random(number) < 0.5
    for row in codes[heat]:
        place = rng.integers(LENGTH - len(MOTIF) + 1)
        row[place : place + len(MOTIF)] = encode(MOTIF)
    planted = codes.copy()
    for number_of_row in np.flatnonzero(heat):
        place = rng.integers(LENGTH - len(MOTIF) + 1)
        planted[number_of_row, place : place + len(MOTIF)] = encode(MOTIF)
    return planted, heat


class KnownWriter:
    """A writer of designs that draws from the true distribution: what a perfect model would write."""

    family, sha256, treatment_names = "known", "0" * 64, ("heat",)
    model = device = path = None

    def __init__(self, dataset_sha256):
        self.dataset_sha256, self.sites = dataset_sha256, {}

    def levels(self, dataset):
        return np.where(dataset.targets > 0.5, 1, -1)

    def map_agreement(self, codes):
        return None

    def designs(self, on, off, number, *, guidance, steps, seed):
        codes, heat = promoters(np.random.default_rng(seed), 6 * number)
        return codes[heat == ("heat" in on)][:number]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("designs")
    codes, heat = promoters(np.random.default_rng(0), 1000)
    location = [f"chr{number % 6}:{number * 90}-{number * 90 + LENGTH}(+)" for number in range(1000)]
    write_fasta(
        folder / "x.fa",
        [FastaRecord(f"g{number}", location[number], decode(row)) for number, row in enumerate(codes)],
    )
    rows = ["gene\theat", *(f"g{number}\t{int(on)}" for number, on in enumerate(heat))]
    (folder / "x.tsv").write_text("\n".join(rows) + "\n")
    sides = ("--holdout", "validation=chr4", "--holdout", "test=chr5,chr3")
    words = (folder / "x.fa", folder / "x.tsv", "-o", folder / "x.dataset.h5", *sides)
    assert bioattn("prepare", "dataset", *words, *BINARY) == 0
    return folder


def designs_file(folder, name, codes, on=("heat",), model="0" * 64):
    description = describe_request(on, (), model=model)
    write_fasta(
        folder / name, [FastaRecord(f"d{n}", description, decode(row)) for n, row in enumerate(codes)]
    )
    return folder / name


def checked(folder, path, **options):
    writer = KnownWriter(sha256_of(folder / "x.dataset.h5"))
    return check_designs(writer, read_designs(path, LENGTH), folder / "x.dataset.h5", samples=0, **options)


def test_the_oracle_is_a_ridge_regression_with_the_penalty_that_leaving_one_out_chooses():
    rng = np.random.default_rng(1)
    codes, heat = promoters(rng, 90)
    targets = heat + 0.1 * rng.standard_normal(90)
    targets[:5] = np.nan
    oracle = KmerOracle(codes, targets[:, None])
    counts = kmer_counts(codes[5:], 6)
    counts, known = counts - counts.mean(0), targets[5:] - targets[5:].mean()
    best = RidgeCV(PENALTIES, fit_intercept=False).fit(counts, known).coef_
    np.testing.assert_allclose(oracle.weights_FT[:, 0], best, atol=1e-8)
    row = codes[7]
    by_hand = sum(best[int("".join(map(str, row[p : p + 6])), 4)] for p in range(LENGTH - 5))
    assert oracle.scores(codes)[7, 0] == pytest.approx(by_hand, abs=1e-8)


def test_distances_and_neighbours_by_sets():
    codes, _ = promoters(np.random.default_rng(2), 12)
    codes[3, 10] = 4

    def words(row, k):
        text = decode(row)
        return [text[p : p + k] for p in range(LENGTH - k + 1) if "N" not in text[p : p + k]]

    first, second = codes[:5], codes[5:]
    share = [
        {word: all_words.count(word) / len(all_words) for word in all_words}
        for all_words in ([word for row in rows for word in words(row, 4)] for rows in (first, second))
    ]
    wanted = sum(abs(share[0].get(word, 0) - share[1].get(word, 0)) for word in {*share[0], *share[1]}) / 2
    assert kmer_distance(first, second, 4) == pytest.approx(wanted)
    near = [
        max(len({*words(row, 8)} & {*words(other, 8)}) for other in second) / len({*words(row, 8)})
        for row in first
    ]
    np.testing.assert_allclose(nearest(first, second), near)
    assert nearest(codes[[0, 1, 0]], codes[[0, 1, 0]], same=True)[0] == 1


def test_simple_designers_climb(folder):
    data = read_dataset(folder / "x.dataset.h5")
    oracle = KmerOracle(data.codes, data.targets.astype(float))
    found = baseline_designs(data.codes, 20, oracle, np.array([1.0]), 0)
    gain = {name: oracle.scores(codes).mean() for name, codes in found.items()}
    chain, pasted, climbed, bred = gain.values()
    assert chain < pasted < climbed
    assert bred > pasted
    assert all(codes.shape == (20, LENGTH) and codes.max() < 4 for codes in found.values())


def test_what_a_perfect_writer_writes_is_supported_and_copies_and_climbers_are_not(folder):
    data = read_dataset(folder / "x.dataset.h5")
    drawn, heat = promoters(np.random.default_rng(9), 500)
    good = checked(folder, designs_file(folder, "good.fa", drawn[heat][:150]))
    assert good.code in ("supported", "partly")
    row, real = good.rows[0], good.rows[1]
    assert row.effect == pytest.approx(real.effect, abs=0.15)
    assert row.distance_6 == pytest.approx(1, abs=0.05)
    assert row.near_training < 0.05
    train = data.codes[data.gene_split == 0][data.targets[data.gene_split == 0, 0] > 0.5]
    copies = checked(folder, designs_file(folder, "copies.fa", train[:40]))
    assert copies.code == "not_supported"
    assert copies.rows[0].near_training == 1
    guide = KmerOracle(data.codes[data.gene_split == 0], data.targets[data.gene_split == 0].astype(float))
    climbed = baseline_designs(train, 40, guide, np.array([1.0]), 0)["genetic algorithm"]
    unreal = checked(folder, designs_file(folder, "climbed.fa", climbed))
    assert unreal.code != "supported"
    assert "do not look like real promoters" in " ".join(unreal.sentences)


def test_chance_does_not_support_designs(folder):
    """Responses, promoters and designs are all drawn at random."""
    codes, rng = promoters(np.random.default_rng(4), 400)[0], np.random.default_rng(5)
    dataset = folder / "chance.dataset.h5"
    data = read_dataset(folder / "x.dataset.h5")
    write_dataset(dataset, replace(data, targets=rng.permutation(data.targets)))
    designs = [read_designs(designs_file(folder, "some.fa", part), LENGTH) for part in np.split(codes, 10)]
    checks = [check_designs(KnownWriter(sha256_of(dataset)), each, dataset, samples=0) for each in designs]
    assert [check.code for check in checks].count("not_supported") >= 9
    assert "Chance alone may give designs this gain" in " ".join(checks[0].sentences)
    judge = Judge(KnownWriter(sha256_of(dataset)), dataset, designs[0].request, 0)
    gains = judge.effects(designs[0].codes, judge.judge, judge.train)[:, 0]
    assert checks[0].rows[0].effect_error == pytest.approx(np.std(gains) / 40**0.5)


def test_held_out_promoters_with_bases_of_training_promoters_do_not_judge(folder):
    """Every second validation promoter is moved onto a training promoter of another gene, on the other strand."""
    data = read_dataset(folder / "x.dataset.h5")
    train, validation = (np.flatnonzero(data.gene_split == side) for side in (0, 1))
    chrom, start, strand = list(data.chrom), data.start.copy(), list(data.strand)
    for moved, on in zip(validation[::2], train, strict=False):
        chrom[moved], start[moved], strand[moved] = chrom[on], start[on] + LENGTH - 1, "-"
    shifted = replace(data, chrom=chrom, start=start, end=start + LENGTH, strand=strand)
    write_dataset(folder / "shifted.dataset.h5", shifted)
    writer = KnownWriter(sha256_of(folder / "shifted.dataset.h5"))
    judge = Judge(writer, folder / "shifted.dataset.h5", DesignRequest(("heat",), (), {}), 0)
    kept = [row for row in np.flatnonzero(data.gene_split) if row not in validation[::2]]
    np.testing.assert_array_equal(judge.held_out, data.codes[kept])


def test_a_promoter_model_is_a_second_oracle_unless_it_shares_training_promoters(folder):
    """Its effect is that of its predictions, in standard deviations of training promoters."""
    inputs = (folder / "x.fa", folder / "x.tsv")
    sides = ("--holdout", "validation=chr0", "--holdout", "test=chr1,chr2")
    assert bioattn("prepare", "dataset", *inputs, "-o", folder / "y.dataset.h5", *sides, *BINARY) == 0
    (folder / "oracle.toml").write_text("[model]\nchannels = 16\npool = 6\n[training]\nepochs = 1\n")
    words = ("-c", folder / "oracle.toml", "-o", folder / "oracle", "--no-baselines", "-t", 1)
    assert bioattn("train", "promoter", folder / "y.dataset.h5", *words) == 0
    model = load_runner(folder / "oracle", torch.device("cpu"))
    drawn, heat = promoters(np.random.default_rng(9), 300)
    path = designs_file(folder, "judged.fa", drawn[heat][:100])
    check = checked(folder, path, oracle=ModelOracle(model, folder / "y.dataset.h5"))
    data = read_dataset(folder / "x.dataset.h5")
    made, real = (
        model.predictor().forward(torch.from_numpy(codes)).detach().numpy()[:, 0].astype(float)
        for codes in (drawn[heat][:100], data.codes[data.gene_split == 0])
    )
    row = check.rows[0]
    assert row.effect_model == pytest.approx((made.mean() - real.mean()) / real.std(), rel=1e-4)
    assert row.on_model == {"heat": pytest.approx(row.effect_model)}
    assert "By the promoter model they gain" in check.sentences[1]
    check.write(folder / "check.json")
    assert DesignsCheck.read(folder / "check.json") == check
    assert bioattn("plot", folder / "check.json", "-o", folder / "check.png") == 0
    assert bioattn("report", folder / "check.json", "-o", folder / "check.html") == 0
    page = (folder / "check.html").read_text()
    assert "by the promoter model" in page
    assert f">{row.effect_model:.2f}<" in page

    with pytest.raises(BioattnError, match=r"is not the dataset that .*oracle was trained on"):
        ModelOracle(model, folder / "x.dataset.h5")
    sides = ("--holdout", "validation=chr0", "--holdout", "test=chr1")
    assert bioattn("prepare", "dataset", *inputs, "-o", folder / "z.dataset.h5", *sides, *BINARY) == 0
    other = ModelOracle(model, folder / "y.dataset.h5")
    other.data = read_dataset(folder / "z.dataset.h5")  # chr2 is also the writer's
    with pytest.raises(
        BioattnError, match="was trained on 167 promoters that the writer was trained on, too"
    ):
        checked(folder, path, oracle=other)
    own = read_dataset(folder / "y.dataset.h5")
    first = list(data.gene_ids).index("g2")  # on chr2, which only the writer was trained on
    other.data = replace(own, start=own.start.copy(), end=own.end.copy(), chrom=list(own.chrom))
    one = int(np.flatnonzero(own.gene_split == 0)[0])
    other.data.chrom[one] = data.chrom[first]
    other.data.start[one], other.data.end[one] = data.end[first] - 1, data.end[first] - 1 + LENGTH
    with pytest.raises(BioattnError, match="was trained on 1 promoter that the writer was trained on, too"):
        checked(folder, path, oracle=other)
    with pytest.raises(SettingsError, match="--other-model and --oracle-dataset: of designs give both"):
        model_oracle([model], None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"on": ("cold",)}, "the designs are for 'cold', which the model does not know"),
        ({"model": "1" * 64}, "was written by another model"),
    ],
)
def test_designs_of_another_request_or_model_are_refused(folder, change, said):
    path = designs_file(folder, "other.fa", promoters(np.random.default_rng(3), 30)[0], **change)
    with pytest.raises(Exception, match=said):
        checked(folder, path)


def test_designs_that_differ_in_request_length_or_say_nothing_are_refused(folder):
    codes = promoters(np.random.default_rng(3), 30)[0]
    path = designs_file(folder, "mixed.fa", codes)
    text = path.read_text()
    for change, said in (
        (
            text.replace("treatment=heat", "treatment=", 1),
            "before it for no treatment; check them one by one",
        ),
        (
            text.replace(f"treatment=heat not= model={'0' * 64}", "", 1),
            "d0 does not say what it was asked for",
        ),
        (text + ">d99 treatment=heat not=\nACGT\n", "d99 has 4 bases; 60 without N are needed"),
        (text[: text.index(">d5")], "holds 5 designs; 20 are needed"),
    ):
        path.write_text(change)
        with pytest.raises(Exception, match=said):
            read_designs(path, LENGTH)
