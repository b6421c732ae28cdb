"""Commands without nouns: `bioattn report`, `inspect`, `validate`, `merge` and `doctor`."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict
from pathlib import Path

import typer

from bioattn.errors import BioattnError, SettingsError
from bioattn.interpret.choices import RESULT, TREATMENTS
from bioattn.io.files import check_apart, check_output, unreadable
from bioattn.io.settings import Writes, argument, option
from bioattn.models.running import RunReport
from bioattn.text import counted, human_bytes, listed
from bioattn_cli.command import command
from bioattn_cli.reporting import Reporter, as_typed

FILES = argument("FILE", "Any files or folders of bioattn.", exists=False)


@command("report")
def report(
    reporter: Reporter,
    inputs: tuple[Path, ...] = argument(
        "RUN", "Results in any order; the content decides their kind.", recorded=""
    ),
    output: Path = option(
        "Page to write (.html), or folder of sections for MultiQC.",
        "--output",
        "-o",
        default=MISSING,
        writes=Writes.OTHER,
    ),
    annotation: Path | None = option(
        "GFF3, GTF or BED: names of genes, and the genes a window reaches into.",
        metavar="GFF",
        recorded="",
    ),
    motifs: Path | None = option("Motifs (MEME, JASPAR) whose hits are marked.", metavar="MEME", recorded=""),
    genes: tuple[str, ...] = option(
        "Promoters to show in full before others, or a file with one id per line; can be repeated.",
        default=(),
        metavar="ID|FILE",
    ),
    treatment: tuple[str, ...] = TREATMENTS,
    title: str | None = option(
        "Title of the page [default: from the inputs], or name of the sample in MultiQC [default: by file]."
    ),
) -> RunReport:
    """Make one HTML page of results, to search and to send; or write them as sections for MultiQC.

    RUN… are any of: a promoter model, its dataset, attention.h5, explain.h5 of `explain attribution`,
    check.json of `explain check`, a folder of `export motifs`, promoters.fa, predictions; folders of `run
    evoformer`, their attention.h5, the alignment that was run, and a structure or contact dataset to compare
    with:

    bioattn report model demo.dataset.h5 attention.h5 check.json promoters.fa -o report.html

    bioattn report family family.attention.h5 family.a3m family.pdb -o family.html

    The page is self-contained. It summarises all promoters and shows as many as fit in full.

    Any other name of OUTPUT is a folder of *_mqc.json, which `multiqc` finds by their names: promoters kept,
    trimmed and dropped, datasets, training curves, accuracy beside the best simple model, verdicts on attention,
    alignments, contacts and structures. Sections of any number of such folders are joined, one line per sample:

    bioattn report promoters.fa demo.dataset.h5 model check.json --title demo -o demo_multiqc
    """
    from bioattn.report.collection import collect_report
    from bioattn.report.inputs import recognise_inputs
    from bioattn.report.page import write_page

    extra = [path for path in (annotation, motifs) if path is not None]
    recorded = {f"input {number}": path for number, path in enumerate([*inputs, *extra], start=1)}
    if not output.name.removesuffix(".gz").lower().endswith((".html", ".htm")):
        from bioattn.report.multiqc import write_multiqc

        if extra or genes or treatment:
            raise SettingsError(
                f"--output {output}: --annotation, --motifs, --genes and --treatment are for a page; end its name "
                "in .html"
            )
        check_apart(output, inputs)
        written = write_multiqc(inputs, output, title)
        return RunReport(
            f"wrote {output}: {counted(len(written), 'section')} for MultiQC ({', '.join(written)})",
            inputs=recorded,
            sections=written,
        )
    check_output(output, [*inputs, *extra])
    found = recognise_inputs(inputs, annotation=annotation, motifs=motifs)
    collected = collect_report(
        found, title=title, genes=genes, treatments=treatment, progress=reporter.progress
    )
    write_page(output, collected)
    if collected.browser is not None:
        if collected.browser.absent:
            reporter.warn(f"--genes: not in {found.attention}: {listed(collected.browser.absent, 20)}")
        reporter.say(collected.browser.chosen_by)
    return RunReport(f"wrote {output} ({human_bytes(output.stat().st_size)})", inputs=recorded)


def _look_at_each(reporter: Reporter, files: Sequence[Path], look: Callable[[Path], bool]) -> bool:
    """Whether `look` is true of all; what it raises for one of several is told at once."""

    good = True
    for file in files:
        try:
            with suppress(PermissionError):  # for its reader to say
                file.stat()
            good &= look(file)
        except (BioattnError, FileNotFoundError) as error:
            told = unreadable(file, error) if isinstance(error, OSError) else error
            if len(files) == 1:
                raise told from error
            good = False
            reporter.error(str(told))
    return good


@command("inspect")
def inspect(
    reporter: Reporter,
    files: tuple[Path, ...] = FILES,
    print_json: bool = option(
        "Print JSON, for programs: an object, or a list of them for several files.", "--json", default=False
    ),
) -> None:
    """Describe files or folders with their main figures.

    Recognises by content everything that bioattn writes, and alignments, PDB, mmCIF, CASP RR, BED, tables and
    published parameters. Of several the others are described when one cannot be read; the exit code is then 1.
    """
    described = []

    def look(file: Path) -> bool:
        from bioattn.store.inspection import as_json, as_text, inspect_file

        description = inspect_file(file)
        if not print_json:
            typer.echo(as_text(description, (file.name if len(files) == 1 else "") or as_typed(str(file))))
        elif len(files) == 1:
            typer.echo(as_json(description))
        else:
            described.append({"file": as_typed(str(file)), **json.loads(as_json(description))})
        return True

    good = _look_at_each(reporter, files, look)
    if print_json and len(files) > 1:
        typer.echo(json.dumps(described, indent=2))
    if not good:
        raise typer.Exit(1)


@command("validate")
def validate(reporter: Reporter, files: tuple[Path, ...] = FILES) -> None:
    """Check files against their schema: exit code 0 when all are valid, 1 when one is not.

    Every value is read. Of an attention file: NaN, sums of rows, names of samples and shapes; of
    parameters: check sums and NaN; of a folder of predictions: every file.
    """

    def look(file: Path) -> bool:
        from bioattn.store.inspection import is_valid, validate_file

        problems = validate_file(file, reporter.progress)
        for problem in problems:
            typer.echo(as_typed(f"{file}: {problem}"))
        valid = is_valid(problems)
        typer.echo(as_typed(f"{file}: {'valid' if valid else 'invalid'}"))
        return valid

    if not _look_at_each(reporter, files, look):
        raise typer.Exit(1)


@command("merge")
def merge(
    reporter: Reporter,
    parts: tuple[Path, ...] = argument(
        "PARTS", "All outputs of one command with --shard, in any order.", recorded=""
    ),
    output: Path = RESULT,
) -> RunReport:
    """Join the parts of a job with --shard into one result.

    Takes attention and attribution HDF5, and tables of predictions (`-o -` writes to standard output; a .gz name
    gives gzip); shards of `run evoformer` and `run phyloformer` share one folder, which needs no merge. Refuses
    missing, repeated or damaged parts, and parts of another model, input or setting, naming the file. The result
    appears when it is complete and replaces an older one. The parts are kept.

    bioattn merge part-*.h5 -o attention.h5
    """
    from bioattn.store.merging import merge_shards

    to_stdout = str(output) == "-"
    summary = merge_shards(parts, sys.stdout if to_stdout else output, progress=reporter.progress)
    if summary.num_missing:
        reporter.warn(
            f"{counted(summary.num_missing, 'alignment')} of {summary.num_inputs:,} failed in their parts and are "
            "not in the whole"
        )
    inputs = counted(summary.num_inputs - summary.num_missing, "input")
    wrote = f"wrote {output}: {summary.title} of {inputs}, from {counted(len(summary.parts), 'part')}"
    return RunReport(
        *([] if to_stdout else [wrote]),
        parts=[path.name for path in summary.parts],
        num_inputs=summary.num_inputs,
    )


@command("doctor")
def doctor(
    reporter: Reporter, print_json: bool = option("Print JSON, for programs.", "--json", default=False)
) -> None:
    """Examine the machine and the installation: exit code 0 when bioattn can work, 1 when not.

    Reports versions, the device and one forward pass on it, threads, and memory. Marks limits with ! and what is
    broken with X, with advice.
    """
    from bioattn.system.doctor import as_text, examine

    diagnoses = examine()
    typer.echo(
        json.dumps([asdict(each) for each in diagnoses], indent=2) if print_json else as_text(diagnoses)
    )
    if any(diagnosis.broken for diagnosis in diagnoses):
        raise typer.Exit(1)
