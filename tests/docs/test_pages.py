"""Every page: its commands parse, its options, files, links and tables are those of the code; Python runs."""

import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import torch
from Bio.PDB.MMCIFParser import MMCIFParser

from bioattn.formats.rr import write_rr
from bioattn.io.settings import build, with_config_file
from bioattn.models.evoformer.config import EvoformerTrainingConfig
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.evoformer.training_task import model_config
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn_cli.program import program
from tests.docs.conftest import PAGES, ROOT, blocks, command_lines, page_text, run_python, snippets


def test_named_files_exist():
    named = re.findall(r"`((?:bioattn|cli|tests)/[\w/]+\.py)`", page_text("architecture"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_drawing_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    truth = pd.read_csv(ROOT / "data" / "families" / "contacts" / "simulated000000.tsv", sep="\t")
    scores = np.zeros((58, 58))
    scores[truth["column_i"] - 1, truth["column_j"] - 1] = 0.9
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "scores.json").write_text("{}")
    write_rr(tmp_path / "family" / "contacts.rr", "A" * 58, scores + scores.T, target="family", method=[])
    (code,) = snippets("figures")
    run_python(code)
    assert (tmp_path / "contacts.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_parse_and_options_exist(page):
    for block in blocks(page):
        done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")
    for words in command_lines(page):
        command = program()
        places = words[1:]
        while hasattr(command, "commands") and not places[0].startswith("-"):
            command = command.commands[places.pop(0)]
        known = {"--help", "--install-completion"}
        for parameter in command.params:
            known |= {*parameter.opts, *parameter.secondary_opts}
        for word in places:
            if word.startswith("-") and len(word) > 1:
                assert word.partition("=")[0] in known, words
            elif word.startswith("data/") and "…" not in word:
                assert (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if target.startswith("http"):
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading and linked.suffix == ".md":
            assert heading in headings(linked), f"{target}#{heading}"


def headings(page):
    """The names by which links find the headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def test_the_tables_are_those_of_the_code(settings_tables):
    for page in ["training", *(f"models/{name.removesuffix('.md')}" for name in settings_tables.TABLES)]:
        text = page_text(page)
        again = settings_tables.with_tables(f"{page.rpartition('/')[2]}.md", text)
        assert text == again, f"{page}: run python docs/settings_tables.py"


@pytest.mark.parametrize("page", ["promoter", "evoformer-training"])
def test_the_toml_is_accepted(tmp_path, page):
    (toml,) = re.findall(r"```toml\n(.*?)```", page_text(f"models/{page}"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    places = {"dataset": tmp_path / "x.h5", "output": tmp_path / "m", "config": (tmp_path / "settings.toml",)}
    if page == "promoter":
        promoter = with_config_file(PromoterTrainingSettings(**places, training={"seed": 3}))
        assert promoter.model == {"hops": 2}
        assert promoter.training == {"epochs": 60, "seed": 3}
        assert promoter.reference == "control"
        return
    settings = with_config_file(EvoformerTrainingSettings(**places, training={"seed": 3}))
    assert model_config(settings.model).num_blocks == 3
    training = build(EvoformerTrainingConfig, settings.training, settings.source("training"))
    assert (training.steps, training.simulated_steps, training.seed) == (500, 1000, 3)


@pytest.mark.shared
def test_the_model_in_python(shared, tmp_path, monkeypatch):
    (snippet,) = snippets("models/evoformer")
    monkeypatch.chdir(tmp_path)
    shutil.copy(shared / "golden" / "tiny_params_af2.npz", "params_model_3_ptm.npz")
    shutil.copy(shared / "golden" / "features_small.a3m", "family.a3m")
    names = run_python(snippet)
    residues = list(MMCIFParser(QUIET=True).get_structure("family", "family.cif").get_residues())
    assert len(residues) == (names["encoded"].aatype < 20).sum()
    assert {len(tiles) for site, tiles in names["maps"].tiles.items() if site.startswith("structure")} == {4}
    assert set(names["maps"].tiles) == {
        *(f"evoformer.{block:02d}.msa_row" for block in range(2)),
        *(f"structure.invariant_point.{layer}" for layer in range(8)),
    }


def test_attention_with_quadratic_encodings_is_a_convolution():
    torch.manual_seed(0)
    (code,) = snippets("layers")
    names = run_python(code)
    assert names["difference"] < 1e-5
    with torch.no_grad():  # the weights decide the result, so that the equality is not one of zeros
        names["convolution"].weight[0, 0, 0] += 0.1
    changed = names["attended"] - names["convolution"](names["inputs"].mT).mT
    assert changed[..., 0].abs().max() > 1e-2
    assert changed[..., 1:].abs().max() < 1e-5
