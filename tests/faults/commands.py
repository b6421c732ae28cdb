"""Every command that writes something, with small inputs: the table that all tests of faults go through."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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


_OUTPUT_OPTIONS = ("-o", "--attention", "--stats", "--mappings", "--pruned-model")


@dataclass(slots=True)
class Command:
    """One command; `{i}` in its arguments stands for the folder of inputs."""

    name: str
    """The words of the command, and after a comma what tells it from another one."""
    arguments: str
    outputs: Sequence[str] = ()
    """What stands under its final name, files and folders; empty: those that the arguments name."""
    inputs: Sequence[str] = ()
    """Files that it reads; empty: those that the arguments name."""
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

    def __post_init__(self) -> None:
        words = self.arguments.split()
        self.outputs = self.outputs or [path for option, path in pairwise(words) if option in _OUTPUT_OPTIONS]
        given = [word.removeprefix("{i}/") for word in words if word.startswith("{i}/")]
        self.inputs = self.inputs or [
            f"{name}/model.safetensors" if name.endswith("model") else name for name in given
        ]

    def argv(self, inputs: Path, *more: str) -> list[str]:
        """The command line, split."""
        words = " ".join([self.name.partition(",")[0], self.arguments, *more]).split()
        return [word.replace("{i}", str(inputs)) for word in words]


PROMOTER_RUN = "--threads 1 --device cpu"
COMMANDS = [
    Command(
        "simulate promoters",
        "-o out --genes 40 --treatments 2 --length 120 --chromosomes 4",
        replace="--force",
    ),
    Command(
        "simulate msa",
        "-o out --families 3 --min-depth 12 --max-depth 20 --min-length 30 --max-length 34",
        replace="--force",
    ),
    Command(
        "simulate score",
        "{i}/attention.h5 {i}/truth.tsv --dataset {i}/x.dataset.h5 --split all -o out.json",
        other="--upsample nearest",
    ),
    Command(
        "prepare promoters",
        "{i}/genome.fa {i}/annotation.gff3 --upstream 120 --downstream 0 --flank 8 -o out.fa "
        "--index genome.index",
        outputs=["out.fa", "out.bed", "out.audit.tsv"],
        other="--upstream 100",
    ),
    Command(
        "prepare dataset",
        "{i}/promoters.fa {i}/responses.tsv --treatment-table {i}/treatments.tsv -o out.dataset.h5",
        outputs=["out.dataset.h5", "out.dataset.audit.tsv"],
        other="--split random --seed 5",
    ),
    Command(
        "prepare msa",
        "{i}/family.a3m -o out.a3m --max-identity 0.9 --stats out.json --threads 1",
        other="--max-depth 20",
    ),
    Command(
        "prepare contacts",
        "{i}/families/PAIRS.tsv -o out.dataset.h5 --mappings out.mappings",
        outputs=["out.dataset.h5", "out.dataset.audit.tsv", "out.mappings"],
        inputs=[
            "families/PAIRS.tsv",
            "families/msa/simulated000000.a3m",
            "families/structure/simulated000001.pdb",
        ],
        other="--max-depth 20",
        grows=["out.mappings"],
        beside=["out.mappings"],
    ),
    Command(
        "train promoter",
        "{i}/x.dataset.h5 -o out --epochs 4 -c {i}/promoter.toml " + PROMOTER_RUN,
        replace="--force",
        resume="--resume",
    ),
    Command(
        "train evoformer",
        "{i}/families.dataset.h5 -o out --steps 4 -c {i}/evoformer.toml " + PROMOTER_RUN,
        replace="--force",
        resume="--resume",
    ),
    Command(
        "run promoter",
        "{i}/model {i}/promoters.fa -o out.tsv --attention out.h5 --batch-size 4 " + PROMOTER_RUN,
        inputs=["model/model.safetensors", "model/config.json", "promoters.fa"],
        other="--treatment treatment2",
        resume="--resume",
    ),
    Command(
        "run evoformer",
        "{i}/family.a3m --model {i}/contact-model -o out --attention out.h5 " + PROMOTER_RUN,
        replace="--force",
        resume="--resume",
    ),
    Command(
        "run evoformer, several",
        "{i}/families/msa --model {i}/contact-model -o out --attention out.h5 --sites *.msa_row "
        + PROMOTER_RUN,
        inputs=["families/msa/simulated000001.a3m", "contact-model/model.safetensors"],
        replace="--force",
        resume="--resume",
        grows=["out"],
        without_failed=["out.h5"],
    ),
    Command(
        "export attention",
        "{i}/model {i}/promoters.fa -o out.h5 --batch-size 4 --phases 2 " + PROMOTER_RUN,
        other="--treatment treatment2",
        resume="--resume",
    ),
    Command(
        "export attribution", "{i}/attribution.h5 -o out", other="--treatment treatment2", replace="--force"
    ),
    Command("export contacts", "{i}/family.attention.h5 -o out.tsv", other=""),
    Command(
        "export motifs",
        "{i}/attention.h5 {i}/attribution.h5 --promoters {i}/promoters.fa -o out",
        other="--treatment treatment2",
        replace="--force",
    ),
    Command(
        "export multiqc",
        "{i}/promoters.fa {i}/x.dataset.h5 {i}/model {i}/prediction -o out",
        inputs=["promoters.fa", "x.dataset.h5", "model/history.csv", "prediction/scores.json"],
        other="--sample another",
        replace="--force",
    ),
    Command("export parameters", "{i}/contact-model -o out.npz", other=""),
    Command(
        "export structure",
        "{i}/family.attention.h5 {i}/families/structure/simulated000000.pdb -o out.pdb",
        inputs=["families/structure/simulated000000.pdb", "family.attention.h5"],
        other="",
    ),
    Command("export anndata", "{i}/attention.h5 -o out.h5ad", other="--treatment treatment2"),
    Command(
        "export tracks",
        "{i}/attention.h5 -o out --downstream 0",
        other="--treatment treatment2",
        replace="--force",
    ),
    Command(
        "explain attribution",
        "{i}/model {i}/promoters.fa -o out.h5 " + PROMOTER_RUN,
        other="--treatment treatment2",
        resume="--resume",
    ),
    Command("explain check", "{i}/model {i}/promoters.fa -o out.json --samples 20 " + PROMOTER_RUN),
    Command(
        "explain heads",
        "{i}/model {i}/x.dataset.h5 -o out --split train " + PROMOTER_RUN,
        other="--split validation",
        replace="--force",
    ),
    Command(
        "explain heads, pruned",
        "{i}/model {i}/x.dataset.h5 -o out --split train --prune-to 1 --pruned-model small " + PROMOTER_RUN,
        other="--split validation",
        replace="--force",
        beside=["small"],
    ),
    Command(
        "explain motifs",
        "{i}/attention.h5 {i}/attribution.h5 --expected {i}/expected.tsv -o out.tsv --shuffles 20",
        other="",
    ),
    Command("merge", "{i}/part-1.h5 {i}/part-2.h5 -o out.h5", other=""),
    Command(
        "merge, folders",
        "{i}/part-1 {i}/part-2 -o out",
        inputs=["part-1/shard.json", "part-2/simulated000002/contacts.tsv"],
        other="",
        replace="--force",
    ),
    Command(
        "plot attention", "{i}/attention.h5 --gene G01 -o out.png --dpi 60", other="--treatment treatment2"
    ),
    Command(
        "report",
        "{i}/model {i}/x.dataset.h5 {i}/attention.h5 {i}/promoters.fa -o out.html",
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
        "run evoformer family.a3m --model contact-model -o prediction --attention family.attention.h5 "
        "--sites *.msa_row --sites *.triangle* --threads 1",
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
