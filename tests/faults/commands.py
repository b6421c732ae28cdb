"""Every command that writes something, with small inputs: the table that all tests of faults go through."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.forked import REPOSITORY, Forks, Run

TINY = REPOSITORY / "data" / "tiny"
FAMILIES = REPOSITORY / "data" / "families"
SETTINGS = """
[model]
channels = 8
hidden_channels = 8
"""
EVOFORMER_SETTINGS = """
[model]
num_blocks = 1
centred_outer_product = false
msa_channels = 16
pair_channels = 16

[training]
steps_per_round = 2
crop = 32
max_extra_msa = 32
max_msa_clusters = 8
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; `{i}` in its arguments stands for the folder of inputs."""

    name: str
    arguments: str
    outputs: Sequence[str]
    """What stands under its final name: files and folders."""
    inputs: Sequence[str]
    """Files that it reads."""
    other: str = "--seed 5"
    """Options that give another result: what an earlier run had left."""
    replace: str = ""
    """Options that allow to replace an earlier result."""
    resume: str = ""
    """Options that go on with a run that was interrupted."""
    grows: Sequence[str] = ()
    """Outputs that are folders of results, each of which is whole or absent on its own."""
    without_failed: Sequence[str] = ()
    """Outputs that are of those inputs that did not fail, when some did."""
    beside: Sequence[str] = ()
    """Outputs that another run can write only together with the first, which has the lock."""

    def argv(self, inputs: Path, *more: str) -> list[str]:
        """Arguments, split."""
        words = " ".join([self.arguments, *more]).split()
        return [word.replace("{i}", str(inputs)) for word in words]


PROMOTER_RUN = "--threads 1 --device cpu"
COMMANDS = [
    Command(
        name="simulate promoters",
        arguments="simulate promoters -o out --genes 40 --treatments 2 --length 120 --chromosomes 4",
        outputs=["out"],
        inputs=[],
        replace="--force",
    ),
    Command(
        name="simulate msa",
        arguments="simulate msa -o out --families 3 --min-depth 12 --max-depth 20 --min-length 30 --max-length 34",
        outputs=["out"],
        inputs=[],
        replace="--force",
    ),
    Command(
        name="simulate score",
        arguments="simulate score {i}/attention.h5 {i}/truth.tsv --dataset {i}/x.dataset.h5 --split all "
        "-o out.json",
        outputs=["out.json"],
        inputs=["attention.h5", "truth.tsv", "x.dataset.h5"],
        other="--upsample nearest",
    ),
    Command(
        name="prepare promoters",
        arguments="prepare promoters {i}/genome.fa {i}/annotation.gff3 --upstream 120 --downstream 0 --flank 8 "
        "-o out.fa --index genome.index",
        outputs=["out.fa", "out.bed", "out.audit.tsv"],
        inputs=["genome.fa", "annotation.gff3"],
        other="--upstream 100",
    ),
    Command(
        name="prepare dataset",
        arguments="prepare dataset {i}/promoters.fa {i}/responses.tsv --treatment-table {i}/treatments.tsv "
        "-o out.dataset.h5",
        outputs=["out.dataset.h5", "out.dataset.audit.tsv"],
        inputs=["promoters.fa", "responses.tsv", "treatments.tsv"],
        other="--split random --seed 5",
    ),
    Command(
        name="prepare msa",
        arguments="prepare msa {i}/family.a3m -o out.a3m --max-identity 0.9 --stats out.json --threads 1",
        outputs=["out.a3m", "out.json"],
        inputs=["family.a3m"],
        other="--max-depth 20",
    ),
    Command(
        name="prepare contacts",
        arguments="prepare contacts {i}/families/PAIRS.tsv -o out.dataset.h5 --mappings out.mappings",
        outputs=["out.dataset.h5", "out.dataset.audit.tsv", "out.mappings"],
        grows=["out.mappings"],
        beside=["out.mappings"],
        inputs=[
            "families/PAIRS.tsv",
            "families/msa/simulated000000.a3m",
            "families/structure/simulated000001.pdb",
        ],
        other="--max-depth 20",
    ),
    Command(
        name="train promoter",
        arguments="train promoter {i}/x.dataset.h5 -o out --epochs 4 -c {i}/promoter.toml " + PROMOTER_RUN,
        outputs=["out"],
        inputs=["x.dataset.h5", "promoter.toml"],
        replace="--force",
        resume="--resume",
    ),
    Command(
        name="train evoformer",
        arguments="train evoformer {i}/families.dataset.h5 -o out --steps 4 -c {i}/evoformer.toml "
        + PROMOTER_RUN,
        outputs=["out"],
        inputs=["families.dataset.h5", "evoformer.toml"],
        replace="--force",
        resume="--resume",
    ),
    Command(
        name="run promoter",
        arguments="run promoter {i}/model {i}/promoters.fa -o out.tsv --attention out.h5 --batch-size 4 "
        + PROMOTER_RUN,
        outputs=["out.tsv", "out.h5"],
        inputs=["model/model.safetensors", "model/config.json", "promoters.fa"],
        other="--treatment treatment2",
        resume="--resume",
    ),
    Command(
        name="run evoformer",
        arguments="run evoformer {i}/family.a3m --model {i}/contact-model -o out --attention out.h5 "
        + PROMOTER_RUN,
        outputs=["out", "out.h5"],
        inputs=["family.a3m", "contact-model/model.safetensors"],
        replace="--force",
        resume="--resume",
    ),
    Command(
        name="run evoformer, several",
        arguments="run evoformer {i}/families/msa --model {i}/contact-model -o out --attention out.h5 "
        "--sites *.msa_row " + PROMOTER_RUN,
        outputs=["out", "out.h5"],
        grows=["out"],
        without_failed=["out.h5"],
        inputs=["families/msa/simulated000001.a3m", "contact-model/model.safetensors"],
        replace="--force",
        resume="--resume",
    ),
    Command(
        name="export attention",
        arguments="export attention {i}/model {i}/promoters.fa -o out.h5 --batch-size 4 --phases 2 "
        + PROMOTER_RUN,
        outputs=["out.h5"],
        inputs=["model/model.safetensors", "promoters.fa"],
        other="--treatment treatment2",
        resume="--resume",
    ),
    Command(
        name="export attribution",
        arguments="export attribution {i}/attribution.h5 -o out",
        outputs=["out"],
        inputs=["attribution.h5"],
        other="--treatment treatment2",
        replace="--force",
    ),
    Command(
        name="export contacts",
        arguments="export contacts {i}/family.attention.h5 -o out.tsv",
        outputs=["out.tsv"],
        inputs=["family.attention.h5"],
        other="",
    ),
    Command(
        name="export motifs",
        arguments="export motifs {i}/attention.h5 {i}/attribution.h5 --promoters {i}/promoters.fa -o out",
        outputs=["out"],
        inputs=["attention.h5", "attribution.h5", "promoters.fa"],
        other="--treatment treatment2",
        replace="--force",
    ),
    Command(
        name="export multiqc",
        arguments="export multiqc {i}/promoters.fa {i}/x.dataset.h5 {i}/model {i}/prediction -o out",
        outputs=["out"],
        inputs=["promoters.fa", "x.dataset.h5", "model/history.csv", "prediction/scores.json"],
        other="--sample another",
        replace="--force",
    ),
    Command(
        name="export parameters",
        arguments="export parameters {i}/contact-model -o out.npz",
        outputs=["out.npz"],
        inputs=["contact-model/model.safetensors"],
        other="",
    ),
    Command(
        name="export structure",
        arguments="export structure {i}/family.attention.h5 {i}/families/structure/simulated000000.pdb -o out.pdb",
        outputs=["out.pdb"],
        inputs=["families/structure/simulated000000.pdb", "family.attention.h5"],
        other="",
    ),
    Command(
        name="export anndata",
        arguments="export anndata {i}/attention.h5 -o out.h5ad",
        outputs=["out.h5ad"],
        inputs=["attention.h5"],
        other="--treatment treatment2",
    ),
    Command(
        name="export tracks",
        arguments="export tracks {i}/attention.h5 -o out --downstream 0",
        outputs=["out"],
        inputs=["attention.h5"],
        other="--treatment treatment2",
        replace="--force",
    ),
    Command(
        name="explain attribution",
        arguments="explain attribution {i}/model {i}/promoters.fa -o out.h5 " + PROMOTER_RUN,
        outputs=["out.h5"],
        inputs=["model/model.safetensors", "promoters.fa"],
        other="--treatment treatment2",
        resume="--resume",
    ),
    Command(
        name="explain check",
        arguments="explain check {i}/model {i}/promoters.fa -o out.json --samples 20 " + PROMOTER_RUN,
        outputs=["out.json"],
        inputs=["model/model.safetensors", "promoters.fa"],
    ),
    Command(
        name="explain heads",
        arguments="explain heads {i}/model {i}/x.dataset.h5 -o out --split train " + PROMOTER_RUN,
        outputs=["out"],
        inputs=["model/model.safetensors", "x.dataset.h5"],
        other="--split validation",
        replace="--force",
    ),
    Command(
        name="explain heads, pruned",
        arguments="explain heads {i}/model {i}/x.dataset.h5 -o out --split train --prune-to 1 "
        "--pruned-model small " + PROMOTER_RUN,
        outputs=["out", "small"],
        beside=["small"],
        inputs=["model/model.safetensors", "x.dataset.h5"],
        other="--split validation",
        replace="--force",
    ),
    Command(
        name="explain motifs",
        arguments="explain motifs {i}/attention.h5 {i}/attribution.h5 --expected {i}/expected.tsv -o out.tsv "
        "--shuffles 20",
        outputs=["out.tsv"],
        inputs=["attention.h5", "attribution.h5", "expected.tsv"],
        other="",
    ),
    Command(
        name="merge",
        arguments="merge {i}/part-1.h5 {i}/part-2.h5 -o out.h5",
        outputs=["out.h5"],
        inputs=["part-1.h5", "part-2.h5"],
        other="",
    ),
    Command(
        name="merge, folders",
        arguments="merge {i}/part-1 {i}/part-2 -o out",
        outputs=["out"],
        inputs=["part-1/shard.json", "part-2/simulated000002/contacts.tsv"],
        other="",
        replace="--force",
    ),
    Command(
        name="plot attention",
        arguments="plot attention {i}/attention.h5 --gene G01 -o out.png --dpi 60",
        outputs=["out.png"],
        inputs=["attention.h5"],
        other="--treatment treatment2",
    ),
    Command(
        name="report",
        arguments="report {i}/model {i}/x.dataset.h5 {i}/attention.h5 {i}/promoters.fa -o out.html",
        outputs=["out.html"],
        inputs=["model/model.safetensors", "x.dataset.h5", "attention.h5", "promoters.fa"],
        other="--title another",
    ),
]
BY_NAME: Mapping[str, Command] = {command.name: command for command in COMMANDS}

EXPECTED = "factor\tjaspar_id\tconsensus\tcondition_group\tdirection\nF1\t\tTGACGTCA\ttreatment1\tup\n"


def make_inputs(folder: Path, forks: Forks) -> None:
    """Make what the commands read, by the commands themselves where they write it."""
    folder.mkdir()
    for path in TINY.iterdir():
        shutil.copy(path, folder)
    shutil.copytree(FAMILIES, folder / "families")
    shutil.copy(FAMILIES / "msa" / "simulated000000.a3m", folder / "family.a3m")
    (folder / "promoter.toml").write_text(SETTINGS)
    (folder / "evoformer.toml").write_text(EVOFORMER_SETTINGS)
    (folder / "expected.tsv").write_text(EXPECTED)
    for line in (
        "prepare promoters genome.fa annotation.gff3 --upstream 120 --downstream 0 --flank 8 -o promoters.fa",
        "prepare dataset promoters.fa responses.tsv --treatment-table treatments.tsv -o x.dataset.h5",
        "prepare contacts families/PAIRS.tsv -o families.dataset.h5",
        "train promoter x.dataset.h5 -o model --epochs 2 -c promoter.toml --threads 1",
        "train evoformer families.dataset.h5 -o contact-model --steps 2 -c evoformer.toml --threads 1",
        "export attention model promoters.fa -o attention.h5 --threads 1",
        "explain attribution model promoters.fa -o attribution.h5 --threads 1",
        "run evoformer family.a3m --model contact-model -o prediction --attention family.attention.h5 --threads 1",
        "export attention model promoters.fa -o part-1.h5 --batch-size 4 --shard 1/2 --threads 1",
        "export attention model promoters.fa -o part-2.h5 --batch-size 4 --shard 2/2 --threads 1",
        "run evoformer families/msa --model contact-model -o part-1 --shard 1/2 --threads 1",
        "run evoformer families/msa --model contact-model -o part-2 --shard 2/2 --threads 1",
    ):
        done = forks.run(Run(arguments=line.split(), folder=str(folder)))
        assert done.status == 0, f"{line}: {done.stderr}"


def contents(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """SHA-256 of every file that stands under one of `names`; not of records of runs, which tell the time."""
    files = [path for name in names for path in (sorted((folder / name).rglob("*")) or [folder / name])]
    found = {}
    for path in files:
        if path.is_file() and not path.name.endswith(".run.json"):
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def others(folder: Path, names: Sequence[str]) -> list[str]:
    """What else lies in `folder`: nothing but records of runs, when all is well."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in names and path.name.removesuffix(".run.json") not in names
    )


def check_records(folder: Path) -> None:
    """Raises: ValueError when a record of a run is not whole."""
    for path in folder.rglob("*.run.json"):
        json.loads(path.read_text())
