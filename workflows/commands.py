"""Every command of bioattn as a Nextflow process and a Snakemake rule: a table, and the program that writes both.

    python workflows/commands.py

writes `nextflow/modules/bioattn.nf` and `snakemake/commands/workflow/Snakefile`. What a command takes, and
whether it takes threads or a device, is read from its declaration; `STEPS` adds the names of outputs. Tests
compare the files with what this program writes, and run every step on the small data named here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

WORKFLOWS = Path(__file__).resolve().parent
MODULE = WORKFLOWS / "nextflow" / "modules" / "bioattn.nf"
SNAKEFILE = WORKFLOWS / "snakemake" / "commands" / "workflow" / "Snakefile"
CORES = {"single": 1, "low": 2, "medium": 6}
"""Threads by label, as in nextflow.config."""


@dataclass(frozen=True)
class Step:
    """A command as a step of a pipeline."""

    words: str
    """The command, such as `export tracks`."""
    inputs: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """By parameter: a path below `data`, or `command:output`; several for several files; empty for none."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """What follows the prefix in their names, by parameter or, where the command names them itself, by a name.

    The first is --output, or standard output if the command has none. A folder ends in `/`.
    """
    options: str = ""
    """Options with which the step runs on the small data."""
    always: str = ""
    """Options that are always given; `{sample}` is the name of the sample."""
    inside: str = ""
    """The file that the command is given out of its first input, a folder."""
    label: str = ""
    """How much it needs, where that is not as with other commands of its verb."""
    sample: str = "tiny"
    """The name of the small data."""
    library: str = ""
    """A package that the command needs beside bioattn."""
    called: str = ""
    """The name of a further step of a command."""

    @property
    def name(self) -> str:
        """The name of its rule."""
        return (self.called or self.words).replace(" ", "_").replace("-", "_")

    @property
    def process(self) -> str:
        """The name of its Nextflow process."""
        return f"BIOATTN_{self.name.upper()}"

    @cached_property
    def _command(self) -> Any:
        from bioattn_cli.program import program

        command: Any = program()
        for word in self.words.split():
            command = command.commands[word]
        return command

    @cached_property
    def declared(self) -> dict[str, Any]:
        """Parameters of the command by name, in its order."""
        return {parameter.name: parameter for parameter in self._command.params}

    @property
    def about(self) -> str:
        """The first sentence of its help."""
        return str(self._command.get_short_help_str(1000)).removesuffix(".")

    @property
    def arguments(self) -> list[str]:
        """Inputs without an option, in the order of the command."""
        return [name for name in self._inputs() if self.declared[name].param_type_name == "argument"]

    @property
    def required(self) -> list[str]:
        """Inputs that cannot be left out."""
        return [name for name in self._inputs() if name in self.arguments or self.declared[name].required]

    @property
    def optional(self) -> list[str]:
        """The other inputs of the table."""
        return [name for name in self._inputs() if name not in self.required]

    def _inputs(self) -> list[str]:
        return [name for name in self.declared if name in self.inputs]

    @property
    def needs(self) -> str:
        """Its label in `CORES`."""
        heavy = self.words.split()[0] in ("train", "explain")
        return self.label or ("medium" if heavy else "low") if "device" in self.declared else "single"

    @property
    def prints(self) -> bool:
        """Whether it has no --output, but writes to standard output."""
        return "output" not in self.declared

    @property
    def files(self) -> dict[str, str]:
        """Outputs, with the run record, as `outputs`."""
        first = next(iter(self.outputs.values())).removesuffix("/")
        return {**self.outputs, **({} if self.prints else {"record": f"{first}.json"})}

    def option(self, name: str) -> str:
        """The option of a parameter."""
        return str(self.declared[name].opts[0])

    def line(self, given: Callable[[str], str], made: Callable[[str], str]) -> list[str]:
        """The words of its command line, up to threads.

        given, made: what stands for an input (of an optional one with its option) and for an output.
        """
        first, *others = self.outputs
        words = [f"bioattn {self.words}"]
        words += [given(name) for name in self.arguments]
        if not self.prints:
            words.append(f"--output {made(first)}")
        words += [f"{self.option(name)} {made(name)}" for name in others if name in self.declared]
        words += [
            f"{self.option(name)} {given(name)}" for name in self.required if name not in self.arguments
        ]
        words += [given(name) for name in self.optional]
        return words + [self.always] * bool(self.always)


def sources(step: Step, name: str) -> tuple[str, ...]:
    """What stands in the table for an input."""
    source = step.inputs[name]
    return source if isinstance(source, tuple) else (source,) if source else ()


MODEL = {"model": ".model/"}
DATASET = {"dataset": ".dataset.h5", "audit": ".dataset.audit.tsv"}
PROMOTERS = "prepare promoters:fasta"
TRAINED = "train promoter:model"
ATTENTION = "export attention:attention"
ALIGNMENT_ATTENTION = "run evoformer:attention"
FAMILY = "families/msa/simulated000000"
MOLECULES = "molecules/molecules.tsv"

STEPS = (
    Step(
        "prepare promoters",
        {"genome": "tiny/genome.fa", "annotation": "tiny/annotation.gff3"},
        {"fasta": ".promoters.fa", "bed": ".promoters.bed", "audit": ".promoters.audit.tsv"},
        options="--upstream 120 --downstream 0 --flank 10",
    ),
    Step(
        "prepare dataset",
        {
            "promoters": PROMOTERS,
            "responses": "tiny/responses.tsv",
            "treatment_table": "tiny/treatments.tsv",
        },
        DATASET,
        options="--split random --holdout test=0.4 --holdout validation=0.2",
    ),
    Step(
        "prepare translation",
        {"pairs": "simulate translation:pairs"},
        DATASET,
        options="--source-alphabet dna --target-alphabet dna --split record",
    ),
    Step("prepare molecules", {"table": MOLECULES}, DATASET, options="--split random", library="rdkit"),
    Step("prepare language", {"fasta": "tiny/genome.fa"}, DATASET, options="--split position"),
    Step("prepare contacts", {"pairs": "families"}, DATASET, inside="PAIRS.tsv", sample="simulated"),
    Step(
        "prepare templates",
        {"query": f"{FAMILY}.a3m", "structures": "templates/helix.pdb"},
        {"templates": ".templates.h5"},
        sample="simulated",
    ),
    Step(
        "prepare msa",
        {"alignment": f"{FAMILY}.a3m"},
        {"alignment": ".prepared.a3m", "stats": ".prepared.json"},
        options="--max-identity 0.9",
        sample="simulated",
    ),
    Step(
        "train promoter",
        {"dataset": "prepare dataset:dataset", "config": ""},
        MODEL,
        options="--epochs 1 -c model.channels=16 -c model.hidden_channels=32",
    ),
    Step(
        "train evoformer",
        {"dataset": "prepare contacts:dataset", "config": "settings/evoformer-tiny.toml"},
        MODEL,
        options="--steps 1",
        sample="simulated",
    ),
    Step(
        "train language",
        {
            "dataset": "prepare language:dataset",
            "start": "",
            "targets": "",
            "config": "settings/language-tiny.toml",
        },
        MODEL,
        options="--steps 10",
    ),
    Step(
        "train molecule",
        {"dataset": "prepare molecules:dataset", "config": "settings/molecule-tiny.toml"},
        MODEL,
        library="rdkit",
    ),
    Step(
        "train phyloformer",
        {"pairs": "simulate trees:trees", "config": "settings/phyloformer-tiny.toml"},
        MODEL,
        inside="PAIRS.tsv",
    ),
    Step(
        "train translation",
        {"dataset": "prepare translation:dataset", "config": "settings/translation-tiny.toml"},
        MODEL,
        options="--steps 5",
    ),
    Step("train memory", {"facts": "cascade", "config": ""}, MODEL, options="--steps 5"),
    Step(
        "train diffusion",
        {"dataset": "prepare dataset:dataset", "config": "settings/diffusion-tiny.toml"},
        MODEL,
        options="--steps 10",
    ),
    Step("run promoter", {"model": TRAINED, "sequences": PROMOTERS}, {"predictions": ".predictions.tsv"}),
    Step(
        "run evoformer",
        {"alignment": "prepare msa:alignment", "model": "models/evoformer-contacts", "templates": ""},
        {"prediction": ".prediction/", "attention": ".attention.h5"},
        options="--sites '*.msa_row'",
        label="medium",
        sample="simulated",
    ),
    Step(
        "run language",
        {"model": "train language:model", "sequences": PROMOTERS},
        {"scores": ".scores.tsv", "embeddings": ".embeddings.h5"},
    ),
    Step(
        "run phyloformer",
        {"alignment": "phyloformer/alignment.fa", "model": "phyloformer/parameters.ckpt"},
        {"phylogeny": ".phylogeny/", "attention": ".attention.h5"},
        label="medium",
    ),
    Step(
        "run translation",
        {"model": "train translation:model", "sources": PROMOTERS},
        {"outputs": ".outputs.fa"},
        options="--length 4",
    ),
    Step(
        "run molecule",
        {"model": "train molecule:model", "table": MOLECULES},
        {"predictions": ".predictions.tsv"},
        library="rdkit",
    ),
    Step(
        "run memory",
        {"model": "train memory:model", "facts": "cascade"},
        {"answers": ".answers.tsv", "attention": ".attention.h5"},
    ),
    Step(
        "generate promoters",
        {"model": "train diffusion:model"},
        {"designs": ".designs.fa"},
        options="--number 20 --steps 4",
    ),
    Step(
        "generate language",
        {"model": "train language:model"},
        {"sequences": ".generated.fa"},
        options="--number 2 --max-length 12",
    ),
    Step("export attention", {"model": TRAINED, "sequences": PROMOTERS}, {"attention": ".attention.h5"}),
    Step("export arrays", {"file": "explain attribution:attribution"}, {"arrays": ".arrays/"}),
    Step(
        "export contacts",
        {"attention": ALIGNMENT_ATTENTION, "regression": ""},
        {"contacts": ".contacts.tsv"},
        sample="simulated",
    ),
    Step(
        "export motifs",
        {"files": ATTENTION, "promoters": PROMOTERS, "database": "tiny/motifs.meme"},
        {"motifs": ".motifs/"},
        label="low",
    ),
    Step(
        "export parameters",
        {"model": "train evoformer:model"},
        {"parameters": ".parameters.npz"},
        sample="simulated",
    ),
    Step(
        "export structure",
        {"attention": ALIGNMENT_ATTENTION, "structure": "families/structure/simulated000000.pdb"},
        {"structure": ".painted.pdb"},
        sample="simulated",
    ),
    Step("export tracks", {"attention": ATTENTION}, {"tracks": ".tracks/"}),
    Step(
        "explain attribution",
        {"model": TRAINED, "promoters": PROMOTERS},
        {"attribution": ".attribution.h5"},
        options="--method gradient-input",
    ),
    Step("explain heads", {"model": TRAINED, "dataset": "prepare dataset:dataset"}, {"heads": ".heads/"}),
    Step(
        "explain response-curve",
        {"responses": "tiny/responses.tsv", "treatment_table": "settings/times-tiny.tsv"},
        {"curves": ".curves.json"},
        options="--along minutes",
    ),
    Step(
        "explain motifs",
        {
            "results": (ATTENTION, "explain attribution:attribution"),
            "expected": "settings/expected-tiny.tsv",
        },
        {"motifs": ".known-motifs.tsv"},
        options="--shuffles 20",
    ),
    Step(
        "explain check",
        {"model": TRAINED, "promoters": PROMOTERS, "dataset": "prepare dataset:dataset"},
        {"check": ".check.json"},
        options="--samples 20",
    ),
    Step("plot", {"files": ATTENTION}, {"figure": ".svg"}, options="--gene G01"),
    Step(
        "report",
        {
            "inputs": (
                *(TRAINED, PROMOTERS, "prepare dataset:dataset", ATTENTION, "explain check:check"),
                "export motifs:motifs",
            ),
            "annotation": "tiny/annotation.gff3",
        },
        {"html": ".report.html"},
    ),
    Step(
        "report",
        {
            "inputs": (
                TRAINED,
                PROMOTERS,
                "prepare promoters:audit",
                "prepare dataset:dataset",
                "explain check:check",
            )
        },
        {"multiqc": ".multiqc/"},
        always="--title {sample}",
        called="report multiqc",
    ),
    Step("inspect", {"files": "prepare dataset:dataset"}, {"description": ".inspect.json"}, always="--json"),
    Step("validate", {"files": "prepare dataset:dataset"}, {"findings": ".validate.txt"}),
    Step("merge", {"parts": ATTENTION}, {"attention": ".attention.h5"}),
    Step(
        "simulate promoters",
        outputs={"simulation": ".simulated/"},
        options="--genes 20 --length 100",
    ),
    Step("simulate language", outputs={"sequences": ".sequences/"}, options="--sequences 20"),
    Step(
        "simulate molecules",
        outputs={"molecules": ".molecules/"},
        options="--molecules 20",
        library="rdkit",
    ),
    Step("simulate translation", outputs={"pairs": ".pairs/"}, options="--pairs 40"),
    Step(
        "simulate trees",
        outputs={"trees": ".trees/"},
        options="--count 10 --sequences 4-5 --sites 30",
    ),
    Step(
        "simulate msa",
        outputs={"families": ".families/"},
        options="--families 1 --depth 10:20 --length 30",
        sample="simulated",
    ),
    Step(
        "simulate score",
        {"attention": ATTENTION, "truth": "tiny/truth.tsv"},
        {"scores": ".scores.json"},
    ),
    Step("doctor", outputs={"findings": ".doctor.json"}, always="--json"),
)
BY_WORDS = {step.words: step for step in STEPS if not step.called}


def _lines(indent: int, *lines: str) -> str:
    return "\n".join(" " * indent + line for line in lines)


def folder_of(name: str) -> str:
    """Where an output stands among those of its step: the run record has a folder."""
    return "bioattn-records/" if name == "record" else ""


def process(step: Step) -> str:
    """The Nextflow process of a step: its input is one tuple, its outputs are named."""
    elements = ["val(meta)", *(f"path({name})" for name in (*step.required, *step.optional))]
    given = {name: f"${{{name}}}" for name in step.required} | {
        name: f"${{{name}_option}}" for name in step.optional
    }
    if step.inside:
        given[step.required[0]] += f"/{step.inside}"
    files = {
        name: f"{folder_of(name)}${{prefix}}{ending.removesuffix('/')}" for name, ending in step.files.items()
    }
    words = step.line(given.__getitem__, files.__getitem__)
    words = [word.format(sample="${prefix}") if word == step.always else word for word in words]
    words += ["--threads ${task.cpus}"] * ("threads" in step.declared) + ["${args}"]
    words += [f"> {files[name]}" for name in step.outputs][:1] * step.prints
    folders = [file for name, file in files.items() if step.files[name].endswith("/")]
    made = [*folders, *([] if step.prints else ["bioattn-records"])]
    plain = [file for file in files.values() if file not in folders]
    version = "eval(\"bioattn --version | sed 's/bioattn //'\")"
    prefix = 'prefix = task.ext.prefix ?: "${meta.id}"'
    return "\n".join(
        [
            f"// {step.about}",
            f"process {step.process} {{",
            _lines(4, 'tag "$meta.id"', f"label 'process_{step.needs}'"),
            *([_lines(4, "label 'process_gpu'")] if "device" in step.declared else []),
            "",
            _lines(4, "input:", f"tuple {', '.join(elements)}" if len(elements) > 1 else "val meta"),
            "",
            _lines(4, "output:"),
            *(_lines(4, f'tuple val(meta), path("{file}"), emit: {name}') for name, file in files.items()),
            _lines(
                4,
                f"tuple val(\"${{task.process}}\"), val('bioattn'), {version}, topic: versions, emit: versions",
            ),
            "",
            _lines(4, "script:", "def args = task.ext.args ?: ''", prefix),
            *(
                _lines(4, f"def {name}_option = {name} ? \"{step.option(name)} ${{{name}}}\" : ''")
                for name in step.optional
            ),
            _lines(4, '"""', *_continued(words, " \\\\"), '"""'),
            "",
            _lines(4, "stub:", prefix, '"""'),
            *([_lines(4, f"mkdir {' '.join(made)}")] if made else []),
            *([_lines(4, f"touch {' '.join(plain)}")] if plain else []),
            _lines(4, '"""'),
            "}\n",
        ]
    )


def _continued(words: list[str], sign: str) -> list[str]:
    return [
        *(f"{word}{sign}" for word in (words[0], *(f"    {word}" for word in words[1:-1]))),
        f"    {words[-1]}",
    ]


def module() -> str:
    """The file of all processes."""
    head = (
        "// A process for each command of bioattn. Written by workflows/commands.py.\n"
        "//\n"
        "// Input: [ meta, inputs in this order ], where `[]` stands for an optional one that there is not.\n"
        "// task.ext.args holds more options, task.ext.prefix the beginning of the names of outputs.\n\n"
    )
    return head + "\n".join(map(process, STEPS))


HEAD = '''# A rule for each command of bioattn, for other workflows. Written by workflows/commands.py.
#
# module bioattn:
#     snakefile: "workflows/snakemake/commands/workflow/Snakefile"
#     config: config
#
# use rule export_tracks from bioattn with:
#     input:
#         attention="my/attention.h5",
#
# Files of a user are looked for in resources/{sample}/, results stand in results/{sample}/RULE/. The setting RULE
# holds more options, such as `export_tracks: "--treatment heat"`.

import shlex


container: config.get("container")


def option(name, files):
    """`name files` for the shell, or nothing where there are none."""
    files = [files] if isinstance(files, str) else files or []
    return " ".join([name, *map(shlex.quote, files)]) if files else ""
'''


def snakefile() -> str:
    """A rule for each step, to be taken over by `use rule`."""
    return HEAD + "".join(f"\n\n{rule(step)}" for step in STEPS)


def rule(step: Step) -> str:
    """The Snakemake rule of a step."""
    given = {name: f"{{input.{name}:q}}" for name in step.required} | {
        name: f"{{params.{name}}}" for name in step.optional
    }
    if step.inside:
        given[step.required[0]] += f"/{step.inside}"
    made = {name: f"{{output.{name}:q}}" for name in step.files}
    words = step.line(given.__getitem__, made.__getitem__)
    words = [word.format(sample="{wildcards.sample:q}") if word == step.always else word for word in words]
    words += ["--threads {threads}"] * ("threads" in step.declared) + ["{params.options}"]
    said = f"> {made[next(iter(step.outputs))]} 2> {{log:q}}" if step.prints else "> {log:q} 2>&1"
    inputs = [f"{name}={rule_input(step, name)}," for name in (*step.required, *step.optional)]
    sections = {
        "input": inputs,
        "output": [f"{name}={rule_output(step, name)}," for name in step.files],
        "log": [f'"logs/{{sample}}/{step.name}.log",'],
        "params": [
            *(
                f'{name}=lambda wildcards, input: option("{step.option(name)}", input.get("{name}")),'
                for name in step.optional
            ),
            f'options=config.get("{step.name}", ""),',
        ],
        "threads": [str(CORES[step.needs])],
        "shell": [f'"{" ".join(words)}"', f'" {said}"'],
    }
    text = [f"{_lines(4, f'{name}:')}\n{_lines(8, *lines)}\n" for name, lines in sections.items() if lines]
    return f"rule {step.name}:\n{''.join(text)}"


def result(step: Step, name: str) -> str:
    """Where a rule writes an output."""
    return f"results/{{sample}}/{step.name}/{folder_of(name)}{step.files[name].strip('./')}"


def rule_output(step: Step, name: str) -> str:
    """The same, as a Snakefile has it."""
    path = f'"{result(step, name)}"'
    return f"directory({path})" if step.files[name].endswith("/") else path


def rule_input(step: Step, name: str) -> str:
    """Where a rule looks for an input: an output of another rule, or a file of the user."""
    paths = []
    for source in sources(step, name):
        words, _, output = source.partition(":")
        before = f"resources/{{sample}}/{Path(source).name}"
        paths.append(f'"{result(BY_WORDS[words], output) if output else before}"')
    return paths[0] if len(paths) == 1 and name in step.required else f"[{', '.join(paths)}]"


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, and its text."""
    yield MODULE, module()
    yield SNAKEFILE, snakefile()


if __name__ == "__main__":
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
