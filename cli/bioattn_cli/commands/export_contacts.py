"""`bioattn export contacts`: what row attention says of contacts."""

import math
from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import OutputOption
from bioattn_cli.reporting import Reporter


@command("export contacts")
def contacts(
    reporter: Reporter,
    attention: Annotated[
        Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 of `run evoformer --attention`.")
    ],
    output: OutputOption,
    regression: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Regression made with --fit.")
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET", help="Fit a regression on this contact dataset and write it as JSON."
        ),
        Input(name="dataset"),
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="Only the alignment of this id [default: all; .rr holds one].")
    ] = None,
    inverse_strength: Annotated[
        float | None,
        typer.Option(
            min=1e-6, help="With --fit: smaller uses fewer heads (C of the L1 penalty) [default: 0.15]."
        ),
    ] = None,
) -> Record:
    """Compute contacts from the row attention of a model.

    The map of each head is averaged over rows, symmetrised and APC-corrected; a logistic regression weighs the
    heads. First fit the regression on a handful of proteins with known structure, then use it on attention of the
    same model:

    bioattn export contacts train.attention.h5 --fit X.dataset.h5 -o heads.json

    bioattn export contacts attention.h5 --regression heads.json -o contacts.rr

    --fit uses the proteins of the dataset's training split that are in ATTENTION (by id), tests on the others, and
    writes JSON (.json). Otherwise the name of the output chooses CASP RR (.rr) or a table (.tsv). Without
    --regression the output is a table of means over heads.
    """
    from bioattn.errors import SettingsError

    if fit is not None and (regression is not None or sample is not None):
        raise SettingsError("--fit makes a regression and goes with neither --regression nor --sample")
    if fit is None and inverse_strength is not None:
        raise SettingsError(
            f"--inverse-strength {inverse_strength:g} is for --fit; give that too, or leave it out"
        )
    if fit is not None:
        from bioattn.interpret.contacts.attention_contacts import INVERSE_STRENGTH, fit_contacts
        from bioattn.interpret.contacts.contact_regression import require_regression_name, write_regression
        from bioattn.text import counted

        require_regression_name(output)
        fitted, report = fit_contacts(
            attention,
            fit,
            inverse_strength=INVERSE_STRENGTH if inverse_strength is None else inverse_strength,
            progress=reporter.progress(),
        )
        write_regression(output, fitted)
        precision = {"fitted": report.fitted.as_figures()}
        reporter.say(
            f"fitted on {counted(len(fitted.proteins), 'protein')}, {counted(fitted.num_heads_used, 'head')} in "
            f"use: "
            f"{_figures(report.fitted.as_figures())} on these"
        )
        if report.num_held_out:
            precision["held_out"] = report.held_out.as_figures()
            reporter.say(
                f"{_figures(report.held_out.as_figures())} on {counted(report.num_held_out, 'protein')} of "
                "other splits"
            )
        return Record(
            f"wrote {output}",
            precision={
                name: {figure: None if math.isnan(value) else value for figure, value in figures.items()}
                for name, figures in precision.items()
            },
        )
    from bioattn.interpret.contacts.contact_regression import read_regression
    from bioattn.interpret.contacts.export import export_contacts, require_contact_name

    require_contact_name(output)
    known = None if regression is None else read_regression(regression)
    number = export_contacts(attention, output, regression=known, sample=sample, progress=reporter.progress())
    return Record(f"wrote {output}", alignments=number)


def _figures(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
