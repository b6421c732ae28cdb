"""Trained models: small, whole, good at what they are for; other files are what data/README.md makes."""

import gzip
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import bioattn
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.errors import BioattnError
from bioattn.formats.fasta import read_fasta
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.models.evoformer.training_families import TrainingFamily, score_family
from bioattn_cli.main import main

DATA = Path(__file__).resolve().parents[2] / "data"
CONTACTS = [DATA / "models" / name for name in ("evoformer-contacts", "evoformer-contacts-covariances")]
GENES = ((4180559, 4180925), (4179995, 4180493), (4181244, 4185273), (4185349, 4189573))
"""rplL, rplJ, rpoB and rpoC of E. coli K-12: 0-based, half-open."""


@pytest.mark.parametrize("model", CONTACTS, ids=lambda path: path.name)
def test_the_contact_model_is_whole_and_small(model, capsys):
    assert sum(path.stat().st_size for path in model.iterdir()) <= 10_000_000
    assert main(["validate", str(model)]) == 0
    assert main(["inspect", str(model)]) == 0
    assert "MSA/pair model folder" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "precision_l"), list(zip(CONTACTS, (0.5, 0.6), strict=True)))
def test_the_contact_model_finds_planted_contacts(model, precision_l, tmp_path):
    """The example families were not among those it was trained on."""
    dataset = tmp_path / "families.dataset.h5"
    assert main(["prepare", "contacts", str(DATA / "families" / "PAIRS.tsv"), "-o", str(dataset), "-q"]) == 0
    loaded = load_evoformer_model(model, torch.device("cpu"))
    opened = open_contact_dataset(dataset)
    families = [TrainingFamily(opened.protein(i)) for i in range(len(opened))]
    found = pd.DataFrame(score_family(loaded.model, family, loaded.inputs) for family in families).mean()
    assert found["P@L/5"] > 0.8
    assert found["P@L"] > precision_l


@pytest.mark.parametrize("model", CONTACTS, ids=lambda path: path.name)
def test_run_uses_it(shared, tmp_path, model):
    """Through the front door on a real family, which it was trained on: the contacts are there."""
    name = "PF00018_2O9S_A"
    alignment = shared / "data" / "msa_structure" / "msa" / f"{name}.fasta"
    output = tmp_path / "out"
    assert main(["run", "evoformer", str(alignment), "--model", str(model), "-o", str(output), "-q"]) == 0
    rows = (output / "contacts.tsv").read_text().splitlines()
    header = rows[0].split("\t")
    columns = [header.index("column_i"), header.index("column_j")]
    predicted = [[int(row.split("\t")[c]) - 1 for c in columns] for row in rows[1:11]]
    mapping = shared / "data" / "msa_structure" / "mapping" / f"{name}.tsv"
    place = {}
    for row in mapping.read_text().splitlines()[1:]:
        cells = row.split("\t")
        place[int(cells[0])] = np.array([float(cell) for cell in cells[6:9]])
    near = [np.linalg.norm(place[i] - place[j]) < 8 for i, j in predicted if i in place and j in place]
    assert np.mean(near) > 0.7


def test_the_genome_model_predicts_better_than_chance(shared, tmp_path, capsys):
    """Genes of the last tenth of the genome, which it was not trained on, and the same letters in random order."""
    model = DATA / "models" / "ecoli-decoder"
    assert sum(path.stat().st_size for path in model.iterdir()) <= 10_000_000
    assert main(["validate", str(model)]) == 0
    (chromosome,) = read_fasta(shared / "data/ecoli/GCF_000005845.2_ASM584v2_genomic.fna.gz")
    genes = [list(chromosome.sequence[start:end]) for start, end in GENES]
    random = np.random.default_rng(0)
    texts = ["".join(gene) for gene in [*genes, *(random.permutation(gene) for gene in genes)]]
    (tmp_path / "genes.fa").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(texts)))
    capsys.readouterr()
    assert main(["run", "language", str(model), str(tmp_path / "genes.fa"), "-o", "-", "-q"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    bits = np.array([float(row[3]) for row in rows]).reshape(2, len(genes))
    assert bits[0].max() < 1.98
    assert bits[1].min() > 2


def test_models_that_come_along_are_known_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_name = bioattn.load_model("evoformer-contacts", device="cpu")
    assert by_name.sha256 == bioattn.load_model(CONTACTS[0], device="cpu").sha256
    (tmp_path / "evoformer-contacts").mkdir()  # what lies here comes first
    with pytest.raises(BioattnError):
        bioattn.load_model("evoformer-contacts")


def test_options_take_models_by_name_too(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "bioattn_cli.commands.export._draw_logo", lambda motif, path: None
    )  # seventy take long
    fasta = tmp_path / "promoters.fa"
    fasta.write_text(">a\n" + "ACGTTGCA" * 70 + "\n", encoding="utf-8")
    export = ["export", "motifs", "--promoters", str(fasta), "--model", "yeast-stress"]
    assert main([*export, "-o", str(tmp_path / "motifs")]) == 0


def test_the_model_of_yeast_knows_the_stress_element():
    """CCCCT raises the response to stress (Martinez-Pastor et al. 1996): here, too."""
    assert main(["validate", "yeast-stress"]) == 0
    model = bioattn.load_model("yeast-stress", device="cpu")
    bases = np.random.default_rng(0).choice(list("ACGT"), (40, model.length), p=[0.32, 0.18, 0.18, 0.32])
    plain = ["".join(row) for row in bases]
    with_element = [each[:310] + "CCCCT" + each[315:] for each in plain]
    change = model.predict(with_element).mean() - model.predict(plain).mean()
    assert (change > 0.05).all()


@pytest.mark.parametrize("model", sorted(path.name for path in (DATA / "models").iterdir()))
def test_models_that_come_along_are_reported(tmp_path, model):
    assert main(["report", str(DATA / "models" / model), "-o", str(tmp_path / "report.html")]) == 0


COMMANDS = re.findall(
    r"`bioattn (simulate \w+ -o data/.*?)`", (DATA / "README.md").read_text(encoding="utf-8")
)


def files_in(folder):
    """What the files of a folder hold by name; the larger ones are kept compressed."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name != "bioattn-records":
            held = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            found[str(path.relative_to(folder)).removesuffix(".gz")] = held
    return found


def test_every_folder_has_its_command():
    folders = sorted(path.name for path in DATA.iterdir() if (path / "simulation.json").is_file())
    assert folders == sorted(re.search(r"-o data/(\S+)", command)[1] for command in COMMANDS)
    assert len(folders) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_makes_the_same_files(tmp_path, monkeypatch, command):
    if "molecules" in command:
        pytest.importorskip("rdkit", reason="no RDKit here (pip install rdkit)")
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    assert main([*shlex.split(command), "--quiet"]) == 0
    made = Path(shlex.split(command)[shlex.split(command).index("-o") + 1])
    found, kept = files_in(made), files_in(DATA.parent / made)
    assert found.keys() == kept.keys()
    for name, held in found.items():
        assert held == kept[name], name


def test_the_data_stay_small():
    sizes = {path: path.stat().st_size for path in DATA.rglob("*") if path.is_file()}
    models = sum(size for path, size in sizes.items() if path.is_relative_to(DATA / "models"))
    assert models < 10_000_000
    assert sum(sizes.values()) - models < 1_500_000
