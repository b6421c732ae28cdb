"""Pages of proteins hold the maps of the files; the heads kept are those that say most of contacts."""

import base64
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from bioattn.choices import Reduction
from bioattn.errors import BioattnError
from bioattn.formats.alignment_file import read_alignment
from bioattn.interpret.alignment_maps import head_map
from bioattn.models.evoformer.sites import alignment_site
from bioattn.report.alignments import collect_alignments, draw_heads, list_heads
from bioattn.report.inputs import ReportInputs
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from bioattn.structures.chain import read_chains
from bioattn.structures.contacts import distances
from bioattn.system.progress import Progress
from tests.making import bioattn
from tests.report.conftest import FAMILY
from tests.result_files import aligned, write_alignments


def unpacked(text, kind=np.uint8):
    values = np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)
    side = int(len(values) ** 0.5)
    return values.reshape(side, side)


@pytest.fixture(scope="module")
def page(protein):
    inputs = ReportInputs(
        prediction=[protein.prediction],
        alignment_attention=[protein.attention],
        alignment=[protein.alignment],
        structure=[protein.structure],
    )
    (page,), left_out = collect_alignments(inputs, Progress())
    assert left_out == []
    return page


def test_maps_are_those_of_the_files(protein, page):
    with h5py.File(protein.prediction / "distogram.h5") as file:
        contact, distance = file["contact_probability"][:], file["expected_distance"][:]
    assert np.abs(unpacked(page.contact) / 255 - contact).max() <= 0.5 / 255 + 1e-6
    assert np.abs(unpacked(page.distance) / 10 - np.minimum(distance, 25.5)).max() <= 0.05 + 1e-4
    with open_attention(protein.attention) as attention:
        assert len(page.heads) == page.num_heads == sum(len(info.heads) for info in attention.sites.values())
        for head in page.heads:
            wanted = attention.weights(head.site, sample=FAMILY, head=head.head)
            drawn = (unpacked(head.map) / 255) ** 2 * head.largest
            # Steps are of the square root.
            assert (
                np.abs(np.sqrt(drawn / head.largest) - np.sqrt(wanted / wanted.max())).max()
                <= 0.5 / 255 + 1e-6
            )


def test_truth_and_its_precision_against_loops(protein, page):
    (chain,) = read_chains(protein.structure)
    apart = distances(chain.cb)
    size = len(apart)
    truth = unpacked(page.truth)
    for i in range(size):
        for j in range(size):
            if i != j:
                assert truth[i, j] == (2 if apart[i, j] < 8 else 1)
    with h5py.File(protein.prediction / "distogram.h5") as file:
        contact = file["contact_probability"][:]
    pairs = sorted(
        ((i, j) for i in range(size) for j in range(i + 6, size)), key=lambda pair: -contact[pair[0], pair[1]]
    )
    right = [apart[pair] < 8 for pair in pairs]
    assert page.prediction_scores["P@L"] == pytest.approx(np.mean(right[:size]))
    assert page.num_likely == sum(contact[pair] > 0.5 for pair in pairs)


def test_rows_are_those_the_model_saw(protein, page):
    alignment = read_alignment(protein.alignment)
    with open_attention(protein.attention) as attention:
        seen = attention.row_names(FAMILY)
    assert page.row_names[: len(seen)] == list(dict.fromkeys(seen))
    for name, row in zip(page.row_names, page.rows, strict=True):
        assert row == alignment.row(alignment.names.index(name))
    assert page.num_rows == alignment.num_rows


def test_where_not_all_heads_fit_the_best_stay(protein, page):
    (chain,) = read_chains(protein.structure)
    with open_attention(protein.attention) as attention:
        sources = list_heads(attention)
        few = draw_heads(attention, FAMILY, sources, None, chain.cb, room=3 * len(page.heads[0].map))
    assert 1 <= len(few) < len(page.heads)
    kept = {(head.site, head.head) for head in few}
    worst_kept = min(head.precision for head in few)
    assert all(head.precision <= worst_kept for head in page.heads if (head.site, head.head) not in kept)


@pytest.mark.parametrize("reduce", list(Reduction))
def test_every_way_of_keeping_attention_is_read(tmp_path, reduce):
    rows, heads, size, kept = 3, 2, 12, 4
    random = np.random.default_rng(1)
    logits = np.exp(2 * random.normal(size=(rows, heads, size, size)))
    whole = (logits / logits.sum(-1, keepdims=True)).astype(np.float32)
    sample = aligned("a", "ACDEFGHIKLMN", rows)
    arrays = {"weights": whole}
    wanted = whole.mean(axis=0)
    if reduce is Reduction.TOP_K:
        index = np.argsort(-whole, axis=-1)[..., :kept].astype(np.int32)
        arrays = {"weights": np.take_along_axis(whole, index, -1), "key_index": index}
        smallest = np.sort(whole, axis=-1)[..., -kept, None]
        wanted = np.where(whole >= smallest, whole, 0).mean(axis=0)
    elif reduce is Reduction.MEAN_ROWS:
        arrays = {"weights": whole.mean(axis=0)}
    elif reduce is Reduction.MAX_ROWS:
        arrays, wanted = {"weights": whole.max(axis=0)}, whole.max(axis=0)
    elif reduce is Reduction.MEAN_HEADS:
        arrays, wanted = {"weights": whole.mean(axis=1)}, whole.mean(axis=(0, 1))[None]
    elif reduce is Reduction.MAX_HEADS:
        arrays, wanted = {"weights": whole.max(axis=1)}, whole.max(axis=1).mean(axis=0)[None]
    site = alignment_site("evoformer", 1, "msa_row", heads)
    options = AttentionOptions(reduce=reduce, top_k=kept)
    write_alignments(tmp_path / "a.h5", [site], [sample], lambda *_: arrays, options)
    with open_attention(tmp_path / "a.h5") as attention:
        sources = list_heads(attention)
        assert {(source.kind, source.block) for source in sources} == {("row attention", 1)}
        sites = attention.sites
        found = [head_map(attention, sites[each.site], "a", each.head) for each in sources]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_contact_dataset_gives_the_same_truth_and_rows(protein, page, tmp_path):
    dataset = tmp_path / "families.h5"
    pairs = protein.alignment.parents[1] / "PAIRS.tsv"
    assert bioattn("prepare", "contacts", pairs, "-o", dataset, "-q") == 0
    inputs = ReportInputs(
        prediction=[protein.prediction], alignment_attention=[protein.attention], contact_dataset=[dataset]
    )
    (other,), _ = collect_alignments(inputs, Progress())
    assert other.truth == page.truth
    assert other.prediction_scores == page.prediction_scores
    assert other.rows[0] == page.rows[0]


def test_a_row_that_was_made_the_query_is_the_target_of_the_page(tmp_path, protein):
    alignment = read_alignment(protein.alignment)
    name = next(each for row, each in enumerate(alignment.names) if row and "-" in alignment.row(row))
    model = Path(__file__).resolve().parents[2] / "data" / "models" / "evoformer-contacts"
    words = ["run", "evoformer", protein.alignment, "--query", name, "--model", model]
    assert bioattn(*words, "-o", tmp_path / "run", "-q") == 0
    inputs = ReportInputs(prediction=[tmp_path / "run"], alignment=[protein.alignment])
    (page,), _ = collect_alignments(inputs, Progress())
    assert page.row_names[0] == name
    assert page.rows[0] == page.sequence == alignment.sequence(alignment.names.index(name))


def test_a_lonely_sequence_is_told(tmp_path):
    """In the page's words, whether the alignment was given or only its attention."""
    (tmp_path / "one.a3m").write_text(">one\nMKTAYIAKQRQISFVKSHFSRQ\n")
    model = Path(__file__).resolve().parents[2] / "data" / "models" / "evoformer-contacts"
    words = ["run", "evoformer", tmp_path / "one.a3m", "--model", model, "-o", tmp_path / "run"]
    words += ["--attention", str(tmp_path / "a.h5"), "--sites", "*.msa_row"]
    assert bioattn(*words, "-q") == 0
    given = ["run", "a.h5"], ["run", "a.h5", "one.a3m"], ["run", "one.a3m"]
    for number, names in enumerate(given):
        page = tmp_path / f"{number}.html"
        assert bioattn("report", *(str(tmp_path / name) for name in names), "-o", page, "-q") == 0
        assert "one distinct row only: there is nothing to tell contacts from" in page.read_text()


def test_attention_goes_to_the_prediction_of_its_model(tmp_path):
    """Two models of one alignment of three rows: two pages, told apart, each with what its own model left."""
    rows = ("MKTAYIAKQRQISFVKSHFSRQ", "MKSAYLAKQREISFVKAHFSKQ", "MRTVYIGKQRQLSYVKSHWSRE")
    (tmp_path / "one.a3m").write_text(
        "".join(f">{name}\n{row}\n" for name, row in zip("abc", rows, strict=True))
    )
    models = Path(__file__).resolve().parents[2] / "data" / "models"
    names = ("evoformer-contacts", "evoformer-contacts-covariances")
    for name in names:
        words = [
            "run",
            "evoformer",
            tmp_path / "one.a3m",
            "--model",
            models / name,
            "-o",
            tmp_path / name,
            "-q",
        ]
        assert bioattn(*words, "--attention", tmp_path / f"{name}.h5", "--sites", "*.01.msa_row") == 0
    given = [tmp_path / name for name in names]
    inputs = ReportInputs(prediction=given, alignment_attention=[tmp_path / f"{names[1]}.h5"])
    pages, _ = collect_alignments(inputs, Progress())
    assert [page.id for page in pages] == [f"one ({folder})" for folder in given]
    assert [page.num_heads for page in pages] == [0, 4]
    assert [[text[:28] for text in page.concerns] for page in pages] == [["only 3.0 effective sequences"]] * 2
    others = replace(inputs, prediction=given[:1])
    assert [page.contact is None for page in collect_alignments(others, Progress())[0]] == [False, True]


def test_where_not_all_proteins_fit_the_rest_is_named(protein, page, tmp_path, monkeypatch):
    folders = [protein.prediction]
    for number in (1, 2):
        folder = tmp_path / f"copy{number}"
        shutil.copytree(protein.prediction, folder)
        scores = (folder / "scores.json").read_text().replace(f'"{FAMILY}"', f'"copy{number}"')
        (folder / "scores.json").write_text(scores)
        folders.append(folder)
    inputs = ReportInputs(prediction=folders)
    one = len(page.contact) + len(page.sequence)  # there is no room for distances then
    monkeypatch.setattr("bioattn.report.alignments.ALONE_BYTES", 2 * one + 10)
    pages, left_out = collect_alignments(inputs, Progress())
    assert [each.id for each in pages] + left_out == [FAMILY, "copy1", "copy2"]
    assert len(pages) == 2
    assert sum(each.size for each in pages) <= 2 * one + 10
    assert all(each.contact is not None and each.distance is None for each in pages)


def test_what_belongs_to_none_is_refused(protein, tmp_path):
    other = tmp_path / "other.a3m"
    other.write_text(">x\nMKTAYIAKQR\n")
    inputs = ReportInputs(prediction=[protein.prediction], alignment=[other])
    with pytest.raises(BioattnError, match="is the input of none"):
        collect_alignments(inputs, Progress())
    strange = tmp_path / "strange.pdb"
    lines = [
        f"ATOM  {n:5d}  CA  TRP A{n:4d}    {3.8 * n:8.3f}   0.000   0.000  1.00  0.00           C"
        for n in range(1, 60)
    ]
    strange.write_text("\n".join([*lines, "END"]) + "\n")
    inputs = ReportInputs(prediction=[protein.prediction], structure=[strange])
    with pytest.raises(BioattnError, match="does not match the alignment"):
        collect_alignments(inputs, Progress())


def test_of_two_structures_that_fit_the_closer_is_taken_in_any_order(protein, page, tmp_path):
    """A relative: the same fold moved apart, with four other residues."""
    relative = tmp_path / "relative.pdb"
    lines = [
        f"{line[:17]}TRP{line[20:30]}{10 * float(line[30:38]) % 999:8.3f}{line[38:]}"
        if line.startswith("ATOM") and int(line[22:26]) <= 4
        else line
        for line in protein.structure.read_text().splitlines()
        if line.startswith(("ATOM", "END"))
    ]
    relative.write_text("\n".join(lines) + "\n")
    for given in ([relative, protein.structure], [protein.structure, relative]):
        inputs = ReportInputs(prediction=[protein.prediction], structure=given)
        with pytest.raises(BioattnError, match=r"relative\.pdb: every protein that it fits has one"):
            collect_alignments(inputs, Progress())
    (only,), _ = collect_alignments(
        ReportInputs(prediction=[protein.prediction], structure=[relative]), Progress()
    )
    assert only.truth_source == "relative.pdb"
    assert only.truth != page.truth
