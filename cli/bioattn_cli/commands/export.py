"""`bioattn export …`: results as files for other tools."""

import importlib.util
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.errors import SettingsError
from bioattn.interpret.choices import MotifSettings, ScriptFormat, TrackSettings
from bioattn.io.settings import FORCE, argument, option, table
from bioattn.models.running import RunReport
from bioattn.text import counted, human_bytes
from bioattn_cli import options
from bioattn_cli.command import command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from bioattn.formats.meme import Motif


@command("export arrays")
def arrays(
    reporter: Reporter,
    file: Path = argument(
        "FILE", "HDF5 of `explain attribution`, attention HDF5, or predictions of `run promoter` (TSV)."
    ),
    output: Path = options.RESULT,
    treatment: tuple[str, ...] = options.TREATMENTS,
    genes: tuple[str, ...] = options.GENES,
    sites: tuple[str, ...] = options.AVERAGED_SITES,
    heads: tuple[int, ...] | None = options.HEADS,
    value_weighted: bool = options.VALUE_WEIGHTED,
    sample: str | None = options.SAMPLE,
    force: bool = FORCE,
) -> RunReport:
    """Write attribution as NumPy archives, or attention and predictions as AnnData (.h5ad), for other programs.

    A name of OUTPUT that ends in .h5ad makes AnnData, for scanpy and its like. Predictions become genes ×
    treatments. Attention over promoters adds a map over the bins of each gene for each treatment (obsm), the mean
    over sites and heads. Attention over an alignment becomes residues × residues with a layer for each head.
    docs/formats/anndata.md says where everything stands. Needs anndata (extra `anndata`).

    bioattn export arrays attention.h5 -o attention.h5ad --treatment heat

    Any other OUTPUT is a folder for TF-MoDISco-lite and tangermeme: sequences.npz (one-hot) and an archive of
    hypothetical contributions for each treatment, all as `arr_0` of shape (genes, 4, positions); treatments.tsv
    and genes.tsv name the archives and rows.

    bioattn export arrays explain.h5 -o arrays --treatment heat

    modisco motifs -s arrays/sequences.npz -a arrays/heat.npz -n 2000 -o modisco.h5
    """
    from bioattn.interpret.array_exports import SUFFIX, export_anndata, export_attribution

    chosen: Any = {"treatments": treatment, "genes": genes, "progress": reporter.progress}
    if not output.name.endswith(SUFFIX):
        if sites or heads is not None or value_weighted or sample is not None:
            raise SettingsError(
                f"--output {output}: --sites, --heads, --value-weighted and --sample are for AnnData; end its "
                f"name in {SUFFIX}"
            )
        summary = export_attribution(file, output, force=force, **chosen)
        scope = f"{counted(summary['treatments'], 'treatment')} of {counted(summary['genes'], 'gene')}"
        return RunReport(
            f"wrote {output}: sequences and {scope}", treatments=summary["treatments"], genes=summary["genes"]
        )
    observations, variables, maps = export_anndata(
        file, output, sites=sites, heads=heads, value_weighted=value_weighted, sample=sample, **chosen
    )
    return RunReport(
        f"wrote {output}: {observations:,} × {variables:,}, {counted(maps, 'map')}",
        observations=observations,
        variables=variables,
        maps=maps,
    )


@command("export motifs")
def motifs(
    reporter: Reporter,
    output: Path = options.FOLDER,
    files: tuple[Path, ...] = argument(
        "FILE",
        "Attention HDF5 of promoters, attribution HDF5, or one of each.",
        default=(),
        recorded="file_{}",
    ),
    promoters: Path | None = option(
        "The promoters; attention and --model need their sequences.", metavar="FASTA"
    ),
    model: Path | None = option("Also show the first layer of this model as motifs.", metavar="FOLDER"),
    database: Path | None = option(
        "Motifs to compare with: MEME, JASPAR or TRANSFAC (needs memelite).", metavar="FILE"
    ),
    treatment: tuple[str, ...] = options.TREATMENTS,
    genes: tuple[str, ...] = options.GENES,
    settings: MotifSettings = table(MotifSettings),
    force: bool = FORCE,
) -> RunReport:
    """Find the motifs that a model attends to, and test them for each treatment.

    The stretches of promoters with the highest contributions (or attention, or attribution) are searched for words
    that other promoters have less often at the same positions; similar words of several treatments become one
    motif. The folder OUTPUT gets motifs.meme, motifs.tsv with matches to --database, treatments.tsv with a test of
    each motif in each treatment against its reference, edges.tsv from motif to gene, and logos.

    bioattn export motifs attention.h5 explain.h5 --promoters promoters.fa --database JASPAR.meme -o motifs
    """
    from bioattn.interpret.motifs.export import export_motifs

    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    if not has_matplotlib:
        reporter.warn("no logos: they need matplotlib (pip install matplotlib)")
    record, by_source, matched = export_motifs(
        files,
        output,
        settings,
        promoters=promoters,
        model=model,
        database=database,
        treatments=treatment,
        genes=genes,
        draw_logo=_draw_logo if has_matplotlib else None,
        force=force,
        progress=reporter.progress,
    )
    found = ", ".join(f"{counted(number, 'motif')} of {source}" for source, number in by_source.items())
    told = "" if matched is None else f"; {matched:,} with a match in the database (q < 0.05)"
    sizes = (counted(record[f"{noun}s"], noun) for noun in ("treatment", "promoter", "edge"))
    return RunReport(
        f"wrote {output}: {found or 'no motif'}{told}; {', '.join(sizes)}",
        motifs=by_source,
        edges=record["edges"],
    )


def _draw_logo(motif: "Motif", path: Path) -> None:
    from bioattn.figures.motif_logos import Logos, draw_logos
    from bioattn.figures.style import write_figure

    write_figure(draw_logos(Logos([motif]), 85.0), path)


@command("export tracks")
def tracks(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5 of promoters (`export attention`)."),
    output: Path = options.FOLDER,
    treatment: tuple[str, ...] = options.TREATMENTS,
    genes: tuple[str, ...] = options.GENES,
    settings: TrackSettings = table(TrackSettings),
    chromosome_sizes: Path | None = option(
        "The genome's .fai, chrom.sizes or FASTA: true chromosome lengths in bigWig.", metavar="FILE"
    ),
    force: bool = FORCE,
) -> RunReport:
    """Write contributions or attention along chromosomes, for IGV, JBrowse and UCSC.

    One bedGraph and one bigWig for every treatment and strand: what each base adds to the response, sums over
    heads; or, without contributions or with --weights, the share of a promoter's attention on it. The folder also
    holds a table per treatment with every bin of every gene, and tracks.json, which lists the files. Where windows
    of one strand overlap, a base goes to the nearest gene; the table has all windows.

    bioattn export tracks attention.h5 -o tracks --treatment heat --against control
    """
    from bioattn.interpret.tracks import export_tracks

    record = export_tracks(
        attention,
        output,
        settings,
        treatments=treatment,
        genes=genes,
        chromosome_sizes=chromosome_sizes,
        force=force,
        progress=reporter.progress,
    )
    files = [output / file["file"] for track in record["tracks"] for file in track["files"]]
    size = sum(path.stat().st_size for path in files)
    return RunReport(
        f"wrote {output}: {counted(len(record['tracks']), 'track')} for each strand, "
        f"{counted(record['promoters'], 'promoter')}, {counted(len(files), 'file')}, {human_bytes(size)}",
        tracks=len(record["tracks"]),
        promoters=record["promoters"],
        without_place=record["promoters_without_place"],
    )


@command("export contacts")
def contacts(
    reporter: Reporter,
    attention: Path = argument(
        "ATTENTION", "Attention HDF5 of alignments, or of a language model's proteins (`export attention`)."
    ),
    output: Path = options.OUTPUT,
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
        precision = {"fitted": report.fitted.as_figures()}
        reporter.say(
            f"fitted on {counted(len(fitted.proteins), 'protein')}, {counted(fitted.num_heads_used, 'head')} in "
            f"use: {_figures(report.fitted.as_figures())} on these"
        )
        if report.num_held_out:
            precision["held_out"] = report.held_out.as_figures()
            reporter.say(
                f"{_figures(report.held_out.as_figures())} on {counted(report.num_held_out, 'protein')} of "
                "other splits"
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


@command("export structure")
def structure(
    reporter: Reporter,
    attention: Path = argument(
        "ATTENTION", "Attention HDF5 of alignments, or of a language model's proteins (`export attention`)."
    ),
    structure: Path = argument("STRUCTURE", "PDB or mmCIF file, plain or compressed."),
    output: Path = options.OUTPUT,
    sample: str | None = options.SAMPLE,
    chain: str | None = options.CHAIN,
    alignment: Path | None = options.STRUCTURE_ALIGNMENT,
    sites: tuple[str, ...] = option(
        "Attention sites, averaged; can be repeated [default: row or self-attention of all layers].",
        default=(),
        metavar="PATTERN",
    ),
    heads: tuple[int, ...] | None = options.HEADS,
    query_residue: str | None = option(
        "Show the attention of this residue (number in the structure) [default: received attention].",
        metavar="N",
    ),
    format: tuple[ScriptFormat, ...] = option(
        "Also write a script for ChimeraX (cxc) or PyMOL (pml) with lines between residues; can be repeated.",
        default=(),
    ),
) -> RunReport:
    """Colour a structure by attention, in place of B-factors.

    0 is the least attended residue of the chain, 100 the most attended; the command prints both in multiples of
    uniform attention. Atoms without attention (other chains, ligands, residues without a column in the alignment)
    get -1. All other bytes are kept. In PyMOL: spectrum b, minimum=0, maximum=100; in
    ChimeraX: color byattribute bfactor range 0,100. --format writes these commands beside the output, and lines
    from CA to CA between residues at least six apart, wider with more attention (both directions averaged).

    bioattn export structure family.attention.h5 family.pdb -o painted.pdb --format cxc --format pml
    """
    from bioattn.interpret.alignment_maps import paint_structure

    painted = paint_structure(
        attention,
        structure,
        output,
        sample=sample,
        chain=chain,
        alignment=alignment,
        sites=sites or None,
        heads=heads,
        query_residue=query_residue,
        scripts=tuple(dict.fromkeys(format)),
    )
    outputs = [output, *(output.with_suffix(f".{each}") for each in dict.fromkeys(format))]
    what = "attention received" if query_residue is None else f"attention of residue {query_residue}"
    return RunReport(
        f"{painted.sample} on chain {painted.chain}: {what} from {painted.minimum:.3g} (0) to "
        f"{painted.maximum:.3g} × uniform (100, {painted.most}); {painted.residues} of {painted.of_residues} "
        "residues have a column",
        f"wrote {' and '.join(map(str, outputs))}",
        outputs=outputs,
        minimum=round(painted.minimum, 6),
        maximum=round(painted.maximum, 6),
    )
