"""Shards of a run over promoters, merged, are the bytes of the run by one process; anything else is refused."""

import shutil
from pathlib import Path

import h5py
import pandas as pd
import pytest
import xarray

from bioattn.models.promoter.config import Conditioning
from bioattn.store.inspection import inspect_file, validate_file
from bioattn_cli.main import main
from tests.inference.conftest import write_model, write_promoter_file


@pytest.fixture(scope="module", autouse=True)
def _small_pieces():
    """Parts and blocks of a few promoters, which end elsewhere than shards do."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("bioattn.models.promoter.inference.run.MAX_PART_SAMPLES", 12)
        monkeypatch.setattr("bioattn.interpret.attribution.run.MAX_PART_SAMPLES", 7)
        monkeypatch.setattr("bioattn.store.writer.STEP_BYTES", 20_000)
        monkeypatch.setattr("bioattn.store.parts.READ_BYTES", 60_000)
        yield


def bioattn(*arguments):
    return main([*map(str, arguments), "-q"])


def in_shards(folder, count, suffix, *command):
    """The parts of `command`, an --output of each."""
    folder.mkdir()
    parts = [folder / f"{number}{suffix}" for number in range(1, count + 1)]
    for number, part in enumerate(parts, start=1):
        assert bioattn(*command, "-o", part, "--shard", f"{number}/{count}") == 0
    return parts


def merged(parts, output):
    assert bioattn("merge", *reversed(parts), "-o", output) == 0
    return output.read_bytes()


@pytest.mark.parametrize("count", [1, 3, 8])
def test_attention(make_model, make_promoters, tmp_path, count):
    command = ("export", "attention", make_model(), make_promoters(), "--batch-size", 4)
    assert bioattn(*command, "-o", tmp_path / "whole.h5") == 0
    parts = in_shards(tmp_path / "parts", count, ".h5", *command)
    assert merged(parts, tmp_path / "merged.h5") == (tmp_path / "whole.h5").read_bytes()
    numbers = []
    for number, part in enumerate(parts, start=1):
        figures = inspect_file(part).figures
        assert figures["shard"] == f"part {number} of {count}"
        numbers.append(figures["genes"])
        assert validate_file(part) == []
    assert sum(numbers) == 23
    # Six batches: no shard has more than a batch more than another.
    assert max(numbers) - min(numbers) <= 4
    assert "shard" not in inspect_file(tmp_path / "merged.h5").figures


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, ("--dtype", "float16", "--phases", 2, "--treatment", "heat-5")),
        ({}, ("--reduce", "mean-heads", "--value-weighted", "--sites", "promoter.cross.1")),
        ({"sink": True, "unconditional": True}, ("--heads", "2,0", "--threads", 2)),
        ({"conditioning": Conditioning.CROSS_ALL}, ("--reduce", "max-heads")),
    ],
)
def test_attention_with_options(make_model, make_promoters, tmp_path, settings, options):
    command = ("export", "attention", make_model(**settings), make_promoters(), "--batch-size", 3, *options)
    assert bioattn(*command, "-o", tmp_path / "whole.h5") == 0
    parts = in_shards(tmp_path / "parts", 3, ".h5", *command)
    assert merged(parts, tmp_path / "merged.h5") == (tmp_path / "whole.h5").read_bytes()


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_predictions(make_model, make_promoters, tmp_path, suffix, capsys):
    command = ("run", "promoter", make_model(), make_promoters(), "--batch-size", 4)
    whole = tmp_path / f"whole{suffix}"
    assert bioattn(*command, "-o", whole) == 0
    parts = in_shards(tmp_path / "parts", 3, suffix, *command)
    assert merged(parts, tmp_path / f"merged{suffix}") == whole.read_bytes()
    description = inspect_file(parts[1])
    assert (description.kind, description.figures["shard"]) == ("predictions-part", "part 2 of 3")
    assert (description.figures["rows"], description.figures["columns"]) == (8, 5)
    assert validate_file(parts[1]) == []
    # What passes over # reads the table in a part.
    table = pd.read_csv(parts[1], sep="\t", comment="#", index_col="gene_id")
    assert list(table.index) == [f"G{number:03d}" for number in range(8, 16)]
    # Either way: a part that was printed, and a whole that is.
    capsys.readouterr()
    assert bioattn(*command, "-o", "-", "--shard", "2/3") == 0
    printed = tmp_path / "printed"
    printed.write_text(capsys.readouterr().out)
    assert bioattn("merge", parts[0], printed, parts[2], "-o", "-") == 0
    assert bioattn("merge", *parts, "-o", tmp_path / "plain.tsv") == 0
    assert capsys.readouterr().out == (tmp_path / "plain.tsv").read_text()


def test_predictions_and_attention_at_once(make_model, make_promoters, tmp_path):
    command = ("run", "promoter", make_model(task="binary"), make_promoters(), "--batch-size", 4)
    whole = [tmp_path / "whole.tsv", tmp_path / "whole.h5"]
    assert bioattn(*command, "-o", whole[0], "--attention", whole[1]) == 0
    parts = [(tmp_path / f"{number}.tsv", tmp_path / f"{number}.h5") for number in (1, 2)]
    for number, (table, attention) in enumerate(parts, start=1):
        shard = ("--shard", f"{number}/2")
        assert bioattn(*command, "-o", table, "--attention", attention, *shard) == 0
    for kind, expected in enumerate(whole):
        output = tmp_path / f"merged{expected.suffix}"
        assert merged([part[kind] for part in parts], output) == expected.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "ism", "--treatment", "heat-5"),
        ("--method", "gradient-input"),
        ("--method", "integrated-gradients", "--steps", 3, "--baseline", "dinucleotide-shuffled"),
        (
            "--method",
            "gradient-input",
            *(word for i in (1, 4, 6, 20, 22) for word in ("--genes", f"G{i:03d}")),
        ),
    ],
)
def test_attribution(make_model, make_promoters, tmp_path, options):
    count = 3
    command = ("explain", "attribution", make_model(), make_promoters(), *options)
    assert bioattn(*command, "-o", tmp_path / "whole.h5") == 0
    parts = in_shards(tmp_path / "parts", count, ".h5", *command)
    assert merged(parts, tmp_path / "merged.h5") == (tmp_path / "whole.h5").read_bytes()
    assert [validate_file(part) for part in parts] == [[]] * count
    assert inspect_file(parts[0]).figures["shard"] == f"part 1 of {count}"


def test_more_shards_than_promoters(make_model, make_promoters, tmp_path):
    """Those beyond are whole, empty files that readers open."""
    model, promoters = make_model(), make_promoters(3)
    for name, command in {
        "attention.h5": ("export", "attention", model, promoters, "--batch-size", 1),
        "predictions.tsv": ("run", "promoter", model, promoters, "--batch-size", 1),
        "explain.h5": ("explain", "attribution", model, promoters),
    }.items():
        assert bioattn(*command, "-o", tmp_path / name) == 0
        parts = in_shards(tmp_path / f"parts of {name}", 5, Path(name).suffix, *command)
        assert merged(parts, tmp_path / f"merged-{name}") == (tmp_path / name).read_bytes()
        assert validate_file(parts[4]) == []
        assert inspect_file(parts[4]).figures["shard_inputs"] == "none of 3"
    empty = tmp_path / "parts of attention.h5" / "5.h5"
    with xarray.open_dataset(empty, group="sites/promoter.cross.0", engine="h5netcdf") as site:
        assert site["weights"].sizes["sample"] == 0


def test_a_shard_goes_on_and_a_part_folder_is_of_one_shard(
    make_model, make_promoters, tmp_path, monkeypatch, capsys
):
    command = ("export", "attention", make_model(), make_promoters(40), "--batch-size", 4)
    assert bioattn(*command, "-o", tmp_path / "whole.h5", "--shard", "1/2") == 0
    output = tmp_path / "part.h5"
    with monkeypatch.context() as patch:
        # Killed while the second of its two parts was computed.
        answers = iter(range(100))
        predict = "bioattn.models.promoter.inference.run.PromoterRunner.compute"
        from bioattn.models.promoter.inference.run import PromoterRunner

        real = PromoterRunner.compute

        def compute(runner, batch):
            if next(answers) == 4:
                raise KeyboardInterrupt
            return real(runner, batch)

        patch.setattr(predict, compute)
        assert bioattn(*command, "-o", output, "--shard", "1/2") == 130
    partial = inspect_file(output.with_name("part.h5.partial")).figures
    assert (partial["complete_parts"], partial["all_parts"], partial["shard"]) == (1, 2, "1/2")
    capsys.readouterr()
    assert bioattn(*command, "-o", output, "--shard", "2/2", "--resume") == 1
    assert "belong to another run (different: shard" in capsys.readouterr().err
    assert bioattn(*command, "-o", output, "--shard", "1/2", "--resume") == 0
    assert output.read_bytes() == (tmp_path / "whole.h5").read_bytes()


class Parts:
    """Three parts of a table and of an attention file, and others that do not belong to them."""

    def __init__(self, folder):
        self.model, self.promoters = folder / "model", folder / "promoters.fa"
        self.other_model = folder / "other"
        self.tables = [folder / "tables" / f"{number}.tsv" for number in (1, 2, 3)]
        self.files = [folder / "files" / f"{number}.h5" for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def parts_made_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    inputs = (write_model(folder), write_promoter_file(folder), "--batch-size", 4)
    write_model(folder, "other", seed=1)
    in_shards(folder / "tables", 3, ".tsv", "run", "promoter", *inputs)
    in_shards(folder / "files", 3, ".h5", "export", "attention", *inputs)
    return folder


@pytest.fixture
def parts(parts_made_once, tmp_path):
    shutil.copytree(parts_made_once, tmp_path, dirs_exist_ok=True)
    return Parts(tmp_path)


def refused(paths, output, capsys, code=1):
    """The sentence with which merging is refused; nothing must be left."""
    before = sorted(path.name for path in output.parent.iterdir())
    capsys.readouterr()
    assert bioattn("merge", *paths, "-o", output) == code
    assert sorted(path.name for path in output.parent.iterdir()) == before
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("bioattn: error: ")


def test_parts_that_are_missing_doubled_or_no_parts(parts, tmp_path, capsys):
    for one, two, three in (parts.tables, parts.files):
        output = tmp_path / f"merged{one.suffix}"
        assert refused([three, one], output, capsys) == (
            f"{three} is part 3 of 3, but part 2 is missing; give all parts"
        )
        assert "is given twice" in refused([one, two, three, one], output, capsys)
        assert refused([one, parts.promoters], output, capsys) == (
            f"{parts.promoters}: is no part of a sharded run; give what commands with --shard wrote (FASTA files "
            "are joined by `cat`)"
        )
        assert "no such file" in refused([one, tmp_path / "none.h5"], output, capsys)
        assert "is an input" in refused([one, two, three], two, capsys, code=2)
    assert "holds attention of promoters" in refused([parts.tables[0], parts.files[1]], output, capsys)
    assert bioattn("merge", *parts.files, "-o", tmp_path / "whole.h5") == 0
    assert "is no part of a sharded run" in refused([tmp_path / "whole.h5"], output, capsys)
    assert "cannot go to standard output" in refused(parts.files, Path("-"), capsys)
    assert "has no shard.json" in refused([tmp_path], output, capsys)


def test_parts_of_other_runs(parts, make_promoters, tmp_path, capsys):
    other_promoters = make_promoters(22, "others.fa")
    output, other = tmp_path / "merged", tmp_path / "part of another"
    base = ("--batch-size", 4, "--shard", "2/3", "-o", other)
    for model, promoters, options, different in (
        (parts.other_model, parts.promoters, (), "model"),
        (parts.model, other_promoters, (), "num_promoters, promoters"),
        (parts.model, parts.promoters, ("--treatment", "heat-5"), "treatments"),
        (parts.model, parts.promoters, ("--batch-size", 5), "batch_size"),
    ):
        for command, (one, _, three) in (
            (("run", "promoter"), parts.tables),
            (("export", "attention"), parts.files),
        ):
            assert bioattn(*command, model, promoters, *base, *options) == 0
            said = refused([one, other, three], output, capsys)
            assert said.startswith(f"{other}: is a part of another run than {one} (different: {different}")
    assert bioattn("export", "attention", parts.model, parts.promoters, *base, "--dtype", "float16") == 0
    assert "(different: dtype)" in refused([*parts.files[::2], other], output, capsys)
    assert bioattn("run", "promoter", parts.model, parts.promoters, *base, "--shard", "2/4") == 0
    assert f"{other}: is part 2 of 4, but {parts.tables[0]} is part 1 of 3" in refused(
        [parts.tables[0], other], output, capsys
    )


@pytest.mark.parametrize("kind", ["cut", "row", "more", "seal", "shard"])
def test_damaged_tables(parts, tmp_path, capsys, kind):
    part = parts.tables[1]
    lines = part.read_text().splitlines(keepends=True)
    damaged = {
        "cut": lines[:-2],
        "row": [*lines[:4], lines[4].replace("G", "g"), *lines[5:]],
        "more": [*lines, *lines[2:]],
        "seal": [*lines[:-1], lines[-1].replace("#sha256 ", "#sha256 0")],
        "shard": [lines[0].replace('"2/3"', '"5/3"'), *lines[1:]],
    }[kind]
    part.write_text("".join(damaged))
    said = refused(parts.tables, tmp_path / "merged.tsv", capsys)
    assert said.startswith(f"{part}: ")
    assert {"cut": "cut short", "shard": "not readably"}.get(kind, "not what was written") in said
    assert [finding.severity for finding in validate_file(part)][:1] == ["error"]
    # Nothing is printed either: it could not be taken back.
    assert bioattn("merge", *parts.tables, "-o", "-") == 1
    assert capsys.readouterr().out == ""


def test_damaged_files(parts, tmp_path, capsys):
    part = parts.files[1]
    whole = part.read_bytes()
    with h5py.File(part) as file:
        chunk = file["sites/promoter.cross.1/weights"].id.get_chunk_info(0)
    flipped = bytearray(whole)
    flipped[chunk.byte_offset + 40] ^= 4
    for damaged, words in ((bytes(flipped), ""), (whole[: len(whole) // 2], ""), (whole[:200], "")):
        part.write_bytes(damaged)
        assert refused(parts.files, tmp_path / "merged.h5", capsys).startswith(f"{part}: {words}")
    part.write_bytes(whole)
    with h5py.File(part, "a") as file:
        # A value that HDF5's own checksum agrees with.
        file["sites/promoter.cross.1/weights"][3, 0, 0, 0] += 0.25
    assert refused(parts.files, tmp_path / "merged.h5", capsys).startswith(
        f"{part}: has no seal, so it was changed after it was written; copy it"
    )
    part.write_bytes(whole)
    with h5py.File(part, "a") as file:
        file["sites/promoter.cross.0/key_edges"][1] += 1
    assert "has no seal" in refused(parts.files, tmp_path / "merged.h5", capsys)
    part.write_bytes(whole)
    with h5py.File(part, "a") as file:
        file.attrs["shard_inputs"] = "8-9/23"
    said = refused(parts.files, tmp_path / "merged.h5", capsys)
    assert f"{part} has inputs 9 of 23 and {parts.files[2]}, the next part, 17 to 23 of 23" in said
    assert "has no seal" in str(validate_file(part)[0])


def test_no_room(parts, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 50_000})())
    assert "only 50,000 are free" in refused(parts.files, tmp_path / "merged.h5", capsys)


def test_what_is_no_shard(make_model, make_promoters, tmp_path, capsys):
    command = ("run", "promoter", make_model(), make_promoters(), "-o", tmp_path / "x.tsv")
    assert bioattn(*command, "--shard", "4/3") == 2
    assert "such as 1/8" in capsys.readouterr().err
