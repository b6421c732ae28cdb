"""`bioattn report` through its front door: what goes in, what is refused, and that bytes repeat."""

import base64
import hashlib
import json
import re
import shutil
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path

import h5py
import numpy as np
import pytest

from bioattn.store.reader import open_attention
from bioattn.store.windows import promoter_samples
from tests.making import bioattn
from tests.report.conftest import (
    GENES,
    HOSTILE_GENE,
    HOSTILE_MOTIF,
    HOSTILE_TREATMENT,
    LENGTH,
    NUM_GENES,
    TREATMENTS,
)
from tests.result_files import cross_site, promoter_layout, write_promoters

SITE = "promoter.cross.0"


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert bioattn("report", *run.everything, "-o", path, "-q") == 0
    return path


def data_of(page):
    text = page.read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, re.DOTALL)
    assert block is not None
    return json.loads(block[1])


class Outline(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.blocks: dict[str, str] = {}
        self._inside = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag if dict(attrs).get("type") is None else "data"

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data):
        if self._inside:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data
        else:
            self.words.append(data)


def outline_of(page):
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    return outline


def test_maps_and_attribution_in_the_page_are_those_of_the_files(run, page):
    promoters = data_of(page)["promoters"]
    genes = {gene["id"]: gene for gene in promoters["genes"]}
    assert sorted(genes) == sorted(GENES)
    with open_attention(run.attention) as attention:
        expected = attention.weights(SITE)
    for number, name in enumerate(GENES):
        raw = zlib.decompress(base64.b64decode(genes[name]["maps"]))
        rows = len(TREATMENTS) * 2
        explained = genes[name]["attributed"]
        assert explained == (number < 5)
        numbers = rows + (len(TREATMENTS) if explained else 0)
        largest = struct.unpack(f"<{numbers}f", raw[: 4 * numbers])
        steps = raw[4 * numbers :]
        bins = expected.shape[-1]
        for row in range(rows):
            values = [largest[row] * step / 63 for step in steps[row * bins : (row + 1) * bins]]
            wanted = expected[number, row // 2, row % 2]
            assert np.abs(np.array(values) - wanted).max() <= wanted.max() / 63 / 2 + 1e-6
        for treatment in range(len(TREATMENTS) if explained else 0):
            start = rows * bins + treatment * LENGTH
            signed = struct.unpack(f"{LENGTH}b", steps[start : start + LENGTH])
            wanted = run.contributions[number, treatment]
            values = np.array(signed) * largest[rows + treatment] / 63
            assert np.abs(values - wanted).max() <= np.abs(wanted).max() / 63 / 2 + 1e-6


def test_contributions_of_attention_are_in_the_page(tmp_path):
    random = np.random.default_rng(0)
    samples = promoter_samples(["g0", "g1"], ["chr1"] * 2, [100, 200], [140, 240], ["+", "-"])
    site = cross_site(range(0, 41, 8), contributes=True)
    weights = random.dirichlet(np.ones(5), size=(2, 2, 2)).astype(np.float32)
    contributions = random.normal(size=weights.shape).astype(np.float32)
    layout = promoter_layout([site], ["heat", "cold"], 40)
    arrays = {site.name: {"weights": weights, "contributions": contributions}}
    write_promoters(tmp_path / "attention.h5", layout, samples, arrays)
    assert bioattn("report", tmp_path / "attention.h5", "-o", tmp_path / "page.html", "-q") == 0
    promoters = data_of(tmp_path / "page.html")["promoters"]
    assert [(each["name"], each["signed"]) for each in promoters["sites"]] == [
        ("contributions", True),
        (site.name, False),
    ]
    genes = {gene["id"]: gene for gene in promoters["genes"]}
    for number, name in enumerate(("g0", "g1")):
        raw = zlib.decompress(base64.b64decode(genes[name]["maps"]))
        largest = np.frombuffer(raw, "<f4", 6)[:2]
        steps = np.frombuffer(raw, np.int8, offset=4 * 6)[: 2 * 5].reshape(2, 5)
        expected = contributions[number].sum(axis=1)
        assert (
            np.abs(steps * largest[:, None] / 63 - expected).max() <= np.abs(expected).max() / 63 / 2 + 1e-6
        )
    text = (tmp_path / "page.html").read_text()
    assert "Contributions to the response to heat" in text
    assert "raises (orange, up) and lowers (purple, down); they add up to the prediction" in text


def test_what_stands_around_a_promoter(run, page):
    data = data_of(page)["promoters"]
    genes = {gene["id"]: gene for gene in data["genes"]}
    first = genes[HOSTILE_GENE]
    assert first["sequence"] == "".join("ACGT"[code] for code in run.codes[0])
    assert first["split"] == "test"
    # The other gene covers 901 to 1030 (from 1) of the chromosome, the window begins at base 1000 (from 0).
    assert first["neighbours"] == [[0, 30, "<i>other</i>", 0, 0]]
    assert [hit[:4] for hit in first["hits"] if hit[0] == HOSTILE_MOTIF] == [[HOSTILE_MOTIF, 20, 30, "+"]]
    assert genes["gene01"]["name"] == "NamedGene"
    # On the − strand position 0 is the window's last base along the chromosome, 4079.
    assert genes["gene03"]["neighbours"] == [[50, 70, "within", 1, 0]]
    assert genes["gene04"]["neighbours"] == [[0, 60, "NamedGene", 1, 0]]
    assert genes["gene01"]["neighbours"] == []


def test_names_never_become_markup(page):
    outline = outline_of(page)
    tags = [tag for tag, _ in outline.tags]
    assert tags.count("script") == 2
    assert not {"img", "iframe", "object", "embed", "base", "form"} & set(tags)
    for tag, attributes in outline.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
    text = page.read_text(encoding="utf-8")
    for name in (HOSTILE_GENE, HOSTILE_TREATMENT, HOSTILE_MOTIF, "<b>where</b>", "deletion <script>"):
        assert name not in text
    assert any(HOSTILE_TREATMENT in words for words in outline.words)


def test_the_policy_lets_the_page_run_its_own_script_and_load_nothing(page):
    outline = outline_of(page)
    policy = next(a["content"] for tag, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        digest = base64.b64encode(hashlib.sha256(outline.blocks[tag].encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    links = [value for _, a in outline.tags for name in ("href", "src") if (value := a.get(name)) is not None]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)", outline.blocks["script"] + outline.blocks["style"]
    )


def test_bytes_repeat_and_hold_no_path(run, page, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(run.folder, elsewhere)
    again = tmp_path / "again.html"
    words = [word.replace(str(run.folder), str(elsewhere)) for word in run.everything]
    assert bioattn("report", *words, "-o", again, "-q") == 0
    assert again.read_bytes() == page.read_bytes()
    assert str(elsewhere).encode() not in again.read_bytes()
    record = json.loads((tmp_path / "bioattn-records/again.html.json").read_text())
    assert record["outputs"]["again.html"] == hashlib.sha256(again.read_bytes()).hexdigest()


def test_where_not_all_promoters_fit_a_choice_is_made_and_said(run, tmp_path, monkeypatch):
    monkeypatch.setattr("bioattn.report.promoters.ALONE_BYTES", 4_000)
    path = tmp_path / "report.html"
    asked = GENES[-1]
    words = ["report", run.model, run.dataset, run.attention, "--genes", asked, "-o", path]
    assert bioattn(*words, "-q") == 0
    promoters = data_of(path)["promoters"]
    shown = [gene["id"] for gene in promoters["genes"]]
    assert shown[0] == asked
    assert 2 <= len(shown) < NUM_GENES
    assert [line[0] for line in promoters["lines"]] == GENES
    assert f"{len(shown)} of 14 promoters are in this page in full" in path.read_text(encoding="utf-8")
    with open_attention(run.attention) as attention:
        weights, edges = attention.weights(SITE), attention.sites[SITE].key_edges
    for number, (_, _, treatment, _, peak) in enumerate(promoters["lines"]):
        best = weights[number, treatment].mean(axis=0).argmax()
        assert edges[best] <= peak < edges[best + 1]


def test_genes_that_are_not_there_are_named(run, tmp_path, capsys):
    path, wanted = tmp_path / "report.html", tmp_path / "genes.txt"
    wanted.write_text(f"absent1\n{GENES[3]}\tx\n")
    words = ["report", run.attention, "--genes", wanted, "--genes", "nobody", "-o", path]
    assert bioattn(*words, "-q") == 0
    assert "not in" in (said := capsys.readouterr().err)
    assert said.rstrip().endswith(": absent1, nobody")
    assert "Asked for, but not in the attention file: absent1, nobody." in " ".join(outline_of(path).words)
    assert data_of(path)["promoters"]["genes"][0]["id"] == GENES[3]


def test_the_first_screen_shows_a_promoter_and_three_findings(run, page, tmp_path):
    """Tracks, letters around the peak, predictions against measurements; then the news, no names for programs."""
    text = page.read_text(encoding="utf-8")
    opening = text[text.index('<div class="opening">') : text.index("More findings")]
    assert opening.count('class="finding ') == 3
    gene = data_of(page)["promoters"]["genes"][0]
    assert opening.count("lead-name") == len(TREATMENTS) + 1
    for values in zip(gene["predicted"], gene["measured"], strict=True):
        predicted, measured = (f"{value:.2f}".replace("-", "−") for value in values)
        assert f"predicted {predicted}, measured {measured}" in opening
    letters = re.search(r'class="lead-letters">(.*?)</p>', opening, re.DOTALL)[1]
    shown = "".join(re.findall(r'class="base-\w( peak)?">(\w)<', letters)[place][1] for place in range(40))
    assert shown in gene["sequence"]
    with open_attention(run.attention) as attention:
        weights = attention.weights(SITE, gene=gene["id"]).mean(axis=1)
        edges = attention.sites[SITE].key_edges
    bins = [weights[treatment].argmax() for treatment in range(len(TREATMENTS))]
    peaks = [gene["sequence"][edges[best] : edges[best + 1]] for best in bins]
    assert "".join(re.findall(r'peak">(\w)<', letters)) in peaks
    assert "a simple model wins" in re.search(r"<h1>(.*?)</h1>", text)[1]
    check = json.loads(run.check.read_text())
    check["verdict"]["code"] = "faithful-treatment-specific"
    check["skipped"] = [{"name": name, "why": "x"} for name in ("uniform_control", "seed_stability")]
    (tmp_path / "check.json").write_text(json.dumps(check))
    words = ["report", run.model, run.attention, tmp_path / "check.json"]
    assert bioattn(*words, "-o", tmp_path / "x.html", "-q") == 0
    provisional = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Provisional" in provisional
    for key in ("faithful-treatment-specific", "uniform_control", "seed_stability"):
        assert key not in provisional
    section = provisional[
        provisional.index('<section id="check"') : provisional.index('<section id="accuracy"')
    ]
    assert "✓" not in section


def test_a_dataset_of_another_training_is_told_first_and_its_split_is_not_shown(run, page, tmp_path):
    other = tmp_path / "other.h5"
    shutil.copy(run.dataset, other)
    with h5py.File(other, "r+") as file:
        file["genes/split"][:] = np.roll(file["genes/split"][:], 4)
    path = tmp_path / "report.html"
    assert bioattn("report", run.model, other, run.attention, "-o", path, "-q") == 0
    summary = path.read_text().partition("<summary>More findings")[0]
    assert "other.h5 is not the dataset that the model was trained on" in summary
    assert "The model was not trained on this gene" in page.read_text()
    assert "The model was not trained on this gene" not in path.read_text()
    assert {gene["split"] for gene in data_of(path)["promoters"]["genes"]} == {""}


def test_the_kept_epoch_is_marked_only_where_it_is_the_best_of_the_curve(run, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(run.model, model)
    (model / "history.csv").write_text(
        "epoch,training_loss,validation_loss,validation_mean_pearson,validation_pearson\n"
        "1,1.0,1.1,0.1,0.4\n2,0.8,0.9,0.3,0.3\n3,0.7,0.8,0.2,0.2\n"
    )
    assert bioattn("report", model, "-o", tmp_path / "report.html", "-q") == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    drawings = re.findall(
        r'<svg[^>]*aria-label="(.*?) while training model"[^>]*>(.*?)</svg>', text, re.DOTALL
    )
    assert {title: 'class="mark"' in drawing for title, drawing in drawings} == {
        "loss": False,
        "mean r over treatments": True,
    }


def test_a_model_whose_positions_ask_is_reported_without_a_browser(run, tmp_path, capsys):
    model, attention, page = tmp_path / "model", tmp_path / "attention.h5", tmp_path / "report.html"
    shape = tmp_path / "shape.toml"
    shape.write_text("[model]\nchannels = 4\nhidden_channels = 4\n")
    words = ["train", "promoter", run.dataset, "-o", model, "--conditioning", "cross-all"]
    assert bioattn(*words, "--epochs", "1", "--no-baselines", "-c", shape, "-q") == 0
    assert bioattn("export", "attention", model, run.promoters, "-o", attention, "-q") == 0
    assert bioattn("report", model, attention, "-o", page, "-q") == 0
    assert data_of(page)["promoters"] is None


def refused(arguments, capsys):
    capsys.readouterr()
    code = bioattn("report", *arguments, "-q")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return code, said


def test_what_does_not_belong_together_is_refused(run, tmp_path, capsys):
    output = ["-o", str(tmp_path / "report.html")]
    other_check = tmp_path / "check.json"
    other_check.write_text(run.check.read_text().replace('"model_sha256": "', '"model_sha256": "f'))
    other_fasta = tmp_path / "other.fa"
    other_fasta.write_text(run.promoters.read_text() + ">more\nACGTACGT\n")
    second = tmp_path / "second.h5"
    second.write_bytes(run.attention.read_bytes())
    cases = [
        ([str(run.model), str(other_check)], 1, "was made with other weights"),
        (
            [str(run.attention), str(other_fasta)],
            1,
            "is not the sequence file that the attention was made from",
        ),
        ([str(run.attention), "--treatment", "nothing"], 1, "holds no such treatment"),
        ([str(run.model), "--treatment", "heat"], 1, "choose from an attention file"),
        ([str(run.attention), str(second)], 1, "is a second attention over promoters"),
        ([str(run.attention), f"{run.attention.parent}/./{run.attention.name}"], 2, "is given twice"),
        ([str(run.promoters)], 1, "nothing to report on"),
        ([str(run.attention), str(run.annotation)], 1, str(run.annotation)),
        ([str(run.attention), "--motifs", str(run.promoters)], 1, "--motifs needs motifs"),
        ([str(run.attention), str(tmp_path / "absent.h5")], 1, "no such file"),
    ]
    for arguments, code, says in cases:
        found, said = refused([*arguments, *output], capsys)
        assert (found, says in said) == (code, True), said
        assert not (tmp_path / "report.html").exists()


def test_damaged_inputs_are_named(run, tmp_path, capsys):
    output = ["-o", str(tmp_path / "report.html")]
    check = tmp_path / "check.json"
    check.write_text('{"format": "bioattn-check", "format_version": "1.0", "measures": []}')
    code, said = refused([str(run.attention), str(check), *output], capsys)
    assert (code, "is incomplete" in said) == (1, True)
    folder = tmp_path / "motifs"
    shutil.copytree(run.motif_export, folder)
    (folder / "treatments.tsv").write_text(
        "treatment\tmotif\treference\tratio\tq_value\nheat\tm\tmean\tx\t1\n"
    )
    code, said = refused([str(run.attention), str(folder), *output], capsys)
    assert (code, "treatments.tsv: cannot be read" in said) == (1, True)


def test_too_many_genes_by_name_are_refused(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bioattn.report.promoters.ALONE_BYTES", 2_000)
    wanted = tmp_path / "genes.txt"
    wanted.write_text("\n".join(GENES))
    output = ["-o", str(tmp_path / "report.html")]
    code, said = refused([str(run.attention), "--genes", str(wanted), *output], capsys)
    assert (code, "14 genes do not fit into a report" in said) == (1, True)


def test_the_lines_of_python_in_the_documentation(run, tmp_path, monkeypatch):
    text = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("model").symlink_to(run.model)
    Path("attention.h5").symlink_to(run.attention)
    found: dict = {}
    exec(block, found)
    assert found["report"].browser is not None
    assert len(data_of(tmp_path / "report.html")["promoters"]["genes"]) == NUM_GENES
