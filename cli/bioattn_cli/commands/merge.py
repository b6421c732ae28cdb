"""`bioattn merge`: one result of the parts that --shard made."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import ForceOption, ResultOption
from bioattn_cli.reporting import Reporter


@command("merge")
def merge(
    reporter: Reporter,
    parts: Annotated[
        list[Path],
        typer.Argument(metavar="PARTS", help="All outputs of one command with --shard, in any order."),
        Input(name=""),
    ],
    output: ResultOption,
    force: ForceOption = False,
) -> Record:
    """Join the parts of a job with --shard into the bytes of one process.

    Takes attention and attribution HDF5, tables of predictions (`-o -` writes to standard output; a .gz name gives
    gzip), and folders of `run evoformer`. Refuses missing, repeated or damaged parts, and parts of
    another model, input or setting, naming the file. A file appears when it is complete and replaces an older one;
    --force is for folders. The parts are kept.

    bioattn merge part-*.h5 -o attention.h5
    """
    from bioattn.store.merging import merge_parts
    from bioattn.text import counted, listed

    to_stdout = str(output) == "-"
    summary = merge_parts(
        parts, sys.stdout if to_stdout else output, force=force, progress=reporter.progress()
    )
    if summary.num_missing:
        names = f": {listed(list(summary.failed))}" if summary.failed else ""
        reporter.warn(
            f"{counted(summary.num_missing, 'alignment')} of {summary.num_inputs:,} failed in their parts and are "
            f"not in the whole{names}"
        )
    inputs = counted(summary.num_inputs - summary.num_missing, "input")
    wrote = f"wrote {output}: {summary.title} of {inputs}, from {counted(len(summary.parts), 'part')}"
    return Record(
        *([] if to_stdout else [wrote]),
        parts=[path.name for path in summary.parts],
        num_inputs=summary.num_inputs,
        failed=summary.failed,
    )
