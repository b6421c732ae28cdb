"""`bioattn export …`: results as files for other tools."""

import importlib.util
import math
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn.errors import SettingsError
from bioattn.interpret.choices import (
    OUTPUT,
    RESIDUE_ATTENTION,
    ExportArrays,
    ExportMotifs,
    ExportStructure,
    ExportTracks,
)
from bioattn.io.settings import option
from bioattn.models.running import RunReport
from bioattn.text import counted
from bioattn_cli.command import command
from bioattn_cli.commands.families import library, settings_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from bioattn.formats.meme import Motif


settings_command("export arrays", ExportArrays, library("interpret.array_exports", "export_arrays"))
settings_command("export structure", ExportStructure, library("interpret.alignment_maps", "paint_structure"))
settings_command("export tracks", ExportTracks, library("interpret.tracks", "export_tracks"))


def _motifs(settings: ExportMotifs, reporter: Reporter) -> RunReport:
    from bioattn.interpret.motifs.export import export_motifs

    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    if not has_matplotlib:
        reporter.warn("no logos: they need matplotlib (pip install matplotlib)")
    return export_motifs(settings, reporter, _draw_logo if has_matplotlib else None)


settings_command("export motifs", ExportMotifs, _motifs)


def _draw_logo(motif: "Motif", path: Path) -> None:
    from bioattn.figures.motif_logos import Logos, draw_logos
    from bioattn.figures.style import write_figure

    write_figure(draw_logos(Logos([motif]), 85.0), path)


@command("export contacts")
def contacts(
    reporter: Reporter,
    attention: Path = RESIDUE_ATTENTION,
    output: Path = OUTPUT,
    regression: Path | None = option("Regression made with --fit.", metavar="JSON"),
    fit: Path | None = option(
        "Fit a regression on this contact dataset and write it as JSON.",
        metavar="DATASET",
        recorded="dataset",
    ),
    sample: str | None = option("Only the protein of this id [default: all; .rr holds one]."),
) -> RunReport:
    """Compute contacts from a model's attention among the residues of alignments or proteins.

    The map of each head is averaged over an alignment's rows, symmetrised and APC-corrected; a logistic
    regression weighs the heads. First fit the regression on a handful of proteins with known structure, then use
    it on attention of the same model:

    bioattn export contacts train.attention.h5 --fit X.dataset.h5 -o heads.json

    bioattn export contacts attention.h5 --regression heads.json -o contacts.rr

    --fit uses the proteins of the dataset's training split that are in ATTENTION (by id), tests on the others, and
    writes JSON (.json). Otherwise the name of the output chooses CASP RR (.rr) or a table (.tsv). Without
    --regression the output is a table of means over heads.
    """

    if fit is not None and (regression is not None or sample is not None):
        raise SettingsError("--fit makes a regression and goes with neither --regression nor --sample")
    if fit is not None:
        from bioattn.interpret.contacts import fit_contacts, write_regression

        if not output.name.endswith((".json", ".json.gz")):
            raise SettingsError(
                f"--output {output}: --fit writes a regression as JSON; end its name in .json"
            )
        fitted, report = fit_contacts(attention, fit, reporter.progress)
        write_regression(output, fitted)
        precision = {"fitted": report.fitted}
        reporter.say(
            f"fitted on {counted(len(fitted.proteins), 'protein')}, {counted(fitted.num_heads_used, 'head')} in "
            f"use: {_figures(report.fitted)} on these"
        )
        if report.num_held_out:
            precision["held_out"] = report.held_out
            reporter.say(
                f"{_figures(report.held_out)} on {counted(report.num_held_out, 'protein')} of other splits"
            )
        return RunReport(
            f"wrote {output}",
            precision={
                name: {figure: None if math.isnan(value) else value for figure, value in figures.items()}
                for name, figures in precision.items()
            },
        )
    from bioattn.interpret.contacts import export_contacts, read_regression

    known = None if regression is None else read_regression(regression)
    number = export_contacts(attention, output, regression=known, sample=sample, progress=reporter.progress)
    return RunReport(f"wrote {output}", alignments=number)


def _figures(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
