"""`bioattn export motifs`: from maps to motifs, what they match, who uses them and where.

Treatments are worked through one after the other, promoters in blocks; what is kept of a treatment are its
matrices and the places of its seqlets.

The tables of the folder are those of `docs/formats/motifs.md`. Motifs are compared by TOMTOM (Gupta et al.
2007) as memelite computes it.
"""

import io
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import require_names, require_reference
from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn.formats.motifs import UNIFORM_BACKGROUND, Motif, MotifDatabase, read_meme, write_meme
from bioattn.formats.tables import write_table
from bioattn.interpret.false_discovery import benjamini_hochberg
from bioattn.interpret.file_kinds import EDGES, LOGOS, MEME, MOTIF_FOLDER, MOTIFS, TREATMENTS
from bioattn.interpret.maps.promoter_maps import (
    ATTENTION,
    ATTRIBUTION,
    SIGNS,
    AttentionMaps,
    AttributionMaps,
    PromoterMaps,
    open_maps,
)
from bioattn.interpret.motifs.discovery import MIN_BITS, trim_vague_ends
from bioattn.interpret.motifs.hits import base_composition
from bioattn.interpret.motifs.source import FILTER, MotifSettings, MotifSource, motif_row
from bioattn.interpret.motifs.use import BACKGROUND, EDGE_COLUMNS, USE_COLUMNS
from bioattn.io.files import sha256_of, text_output, write_json
from bioattn.io.folders import atomic_folder
from bioattn.models.family import WEIGHTS
from bioattn.promoters.gene_ids import choose_genes
from bioattn.store.attribution import AttributionFile
from bioattn.store.windows import genomic_interval
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted

if TYPE_CHECKING:
    from bioattn.inference.runner import FirstLayerRunner

MOTIF_HEADER = (
    *("motif", "source", "consensus", "width", "seqlets", "information_bits", "treatments"),
    *(
        "surest_treatment",
        "share",
        "control_share",
        "log10_p",
        "match",
        "match_name",
        "match_p_value",
        "match_q_value",
    ),
)
_PLACE = ("chrom", "genomic_start", "genomic_end", "genomic_strand")
EDGE_HEADER = (*EDGE_COLUMNS[:6], *_PLACE, *EDGE_COLUMNS[6:])
_NUMBERS = "%.5g"


def write_motif_table(path: Path, rows: Sequence[dict[str, object]], matches: pd.DataFrame | None) -> None:
    """Write motifs.tsv. matches: as of `match_motifs`, in the order of `rows`; None = there was no database."""
    table = pd.DataFrame(rows, columns=list(MOTIF_HEADER))
    if matches is not None:
        for name in ("match", "match_name"):
            table[name] = matches[name].to_numpy()
        for name in ("p_value", "q_value"):
            table[f"match_{name}"] = matches[name].to_numpy()
    for name in ("width", "seqlets", "treatments"):
        table[name] = table[name].astype("Int64")
    write_table(path, table, _NUMBERS)


def write_edges(file: io.TextIOBase, edges: pd.DataFrame, maps: PromoterMaps) -> int:
    """Write rows of edges.tsv with places on chromosomes, empty where a promoter has none; returns how many."""
    places = maps.samples.loc[edges["gene_id"]]
    start, end = edges["start"].to_numpy(dtype=np.int64), edges["end"].to_numpy(dtype=np.int64)
    low, high = np.zeros_like(start), np.zeros_like(end)
    strands = places["strand"].to_numpy(dtype=object)
    for strand in ("+", "-"):
        own = strands == strand
        low[own], high[own] = genomic_interval(
            start[own],
            end[own],
            places["start"].to_numpy()[own],
            places["end"].to_numpy()[own],
            strand,
            maps.length,
        )
    placed = np.isin(strands.astype(str), ("+", "-"))
    same = strands == edges["strand"].to_numpy(dtype=object)
    table = edges.assign(
        chrom=places["chrom"].to_numpy(),
        genomic_start=pd.array(np.where(placed, low, 0), dtype="Int64"),
        genomic_end=pd.array(np.where(placed, high, 0), dtype="Int64"),
        genomic_strand=np.where(placed, np.where(same, "+", "-"), ""),
    )
    table.loc[~placed, ["genomic_start", "genomic_end"]] = pd.NA
    table[list(EDGE_HEADER)].to_csv(
        file, sep="\t", index=False, header=False, float_format=_NUMBERS, lineterminator="\n"
    )
    return len(table)


LOGGER = logging.getLogger("bioattn")

FEW_TARGETS = 50
"""With fewer motifs in the database p-values depend much on which they are; MEME's tomtom warns below this too."""


def require_tomtom() -> None:
    """Check that memelite is installed. Raises: BioattnError when it is not."""
    try:
        import memelite  # noqa: F401
    except ImportError:
        raise BioattnError(
            "comparing motifs with a database needs memelite; install it: pip install memelite"
        ) from None


def match_motifs(families: Sequence[Sequence[Motif]], database: MotifDatabase) -> pd.DataFrame:
    """The best match of each motif: columns motif, match, match_name (its second name), p_value and q_value.

    families: motifs that belong together, as those of one kind of map. The q-value is Benjamini & Hochberg's over
    all pairs of a motif of the family and a database motif. The best match is always given, whatever its q-value.

    Raises: BioattnError when memelite is not installed.
    """
    require_tomtom()
    motifs = [motif for family in families for motif in family]
    if not motifs:
        return pd.DataFrame(columns=["motif", "match", "match_name", "p_value", "q_value"])
    if len(database.motifs) < FEW_TARGETS:
        LOGGER.warning(
            f"the database holds {len(database.motifs)} motifs only; TOMTOM's p-values take their background from "
            f"its columns and are rough below {FEW_TARGETS}"
        )
    ours, theirs = counted(len(motifs), "motif"), counted(len(database.motifs), "motif")
    LOGGER.info(
        f"comparing {ours} with {theirs} of the database; the first time after an install memelite compiles "
        "itself, which takes about a minute"
    )
    from memelite import tomtom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few targets; said above
        queries, targets = (
            [np.ascontiguousarray(motif.probabilities.T) for motif in several]
            for several in (motifs, database.motifs)
        )
        p_values: NDArray[np.float64] = np.asarray(tomtom(queries, targets, n_jobs=1)[0], dtype=np.float64)
    q_values = np.empty_like(p_values)
    first = 0
    for family in families:
        rows = slice(first, first + len(family))
        q_values[rows] = benjamini_hochberg(p_values[rows].ravel()).reshape(p_values[rows].shape)
        first += len(family)
    best = p_values.argmin(axis=1)
    every = np.arange(len(motifs))
    return pd.DataFrame(
        {
            "motif": [motif.name for motif in motifs],
            "match": [database.motifs[number].name for number in best],
            "match_name": [database.motifs[number].alternative_name for number in best],
            "p_value": p_values[every, best],
            "q_value": q_values[every, best],
        }
    )


MATCHED = 0.05
"""Largest q-value of a match that is counted."""
MIN_FILTER_SITES = 10
"""A filter with fewer sites is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifSummary:
    """Counts of what was found."""

    motifs: dict[str, int]
    """By source: attention (or raising and lowering), attribution, filter."""
    matched: int | None
    """With q < 0.05; None without a database."""
    treatments: int
    promoters: int
    edges: int


def export_motifs(
    files: Sequence[Path],
    output: Path,
    settings: MotifSettings,
    *,
    promoters: Path | None = None,
    model: Path | None = None,
    database: Path | None = None,
    treatments: Sequence[str] = (),
    genes: Sequence[str] = (),
    draw_logo: Callable[[Motif, Path], None] | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> MotifSummary:
    """Write the folder `output` of motifs (`docs/formats/motifs.md`).

    files: attention or attribution of promoters, one of each kind at most. promoters: the FASTA; attention and
    filters need it. model: folder of a model whose first layer is shown too. database: motifs to compare with.
    treatments: names, none = all. genes: ids or files of ids, none = all. draw_logo: draws a motif into a file;
    None = no logos. force: replace a folder of motifs.

    Raises: BioattnError for files that are neither, promoters that do not fit, a folder in the way or a missing
    library; SettingsError for settings that contradict each other; Interrupted on Ctrl-C and SIGTERM, with nothing
    kept.
    """
    others = {"promoters": promoters, "model": model, "database": database}
    own_names = MOTIF_FOLDER.check_output(output, [*files, *filter(None, others.values())], force=force)
    if not files and model is None:
        raise SettingsError("give an attention or attribution file, or --model for the motifs of its filters")
    targets = None
    if database is not None:
        require_tomtom()
        targets = read_meme(database)
    with ExitStack() as stack:
        maps = [each for path in files for each in _open(stack, path, settings, promoters, genes)]
        kinds = [each.kind for each in maps]
        if len(set(kinds)) < len(kinds):
            raise BioattnError(f"two {kinds[0]} files: give one of each kind, or run the command for each")
        if (settings.heads is not None or settings.sites != MotifSettings().sites) and set(kinds) <= {
            ATTRIBUTION
        }:
            option = "--sites" if settings.heads is None else "--heads"
            raise BioattnError(f"{option} chooses in attention, which is not given; leave it out")
        for each in maps:
            require_names("--treatment", treatments, each.treatments, each.path)
            require_reference("--against", settings.against, each.treatments, each.path)
            if list(treatments or each.treatments) == [settings.against]:
                raise BioattnError(f"--against {settings.against!r}: is the only treatment; name others")
        filters = [] if model is None else _filters(model, promoters)
        sources = [MotifSource(each, treatments or each.treatments, settings) for each in maps]
        try:
            with stop_on_signals() as request, atomic_folder(output, own_names) as folder:
                for source in sources:
                    kind = f"motifs in {source.maps.kind}"
                    for treatment in watched(progress, kind, source.treatments):
                        request.check()
                        source.search(treatment)
                    source.merge()
                rows = [row for source in sources for row in source.table()]
                rows += [motif_row(motif, FILTER) for motif in filters]
                motifs = [motif for source in sources for motif in source.motifs] + filters
                families = [*(source.motifs for source in sources), filters]
                matches = None if targets is None else match_motifs(families, targets)
                write_motif_table(folder / MOTIFS, rows, matches)
                background = base_composition(maps[0].codes) if maps else None
                write_meme(folder / MEME, motifs, UNIFORM_BACKGROUND if background is None else background)
                edges = _write_use(folder, sources, request, progress)
                if draw_logo is not None and motifs:
                    (folder / LOGOS).mkdir()
                    for motif in motifs:
                        request.check()
                        draw_logo(motif, folder / LOGOS / f"{motif.name}.svg")
                inputs = {each.kind: each.path for each in maps} | {n: p for n, p in others.items() if p}
                write_json(
                    folder / MOTIF_FOLDER.record, _record(folder, settings, sources, motifs, inputs, edges)
                )
        except Interrupted as stop:
            raise Interrupted(f"{stop}; no motifs were kept, run again", stop.exit_code) from stop
        finally:
            progress.end()
    return MotifSummary(
        motifs=Counter(str(row["source"]) for row in rows),
        matched=None if matches is None else int((matches["q_value"] < MATCHED).sum()),
        treatments=max((len(source.treatments) for source in sources), default=0),
        promoters=max((len(each.codes) for each in maps), default=0),
        edges=edges,
    )


def _open(
    stack: ExitStack, path: Path, settings: MotifSettings, promoters: Path | None, genes: Sequence[str]
) -> list[PromoterMaps]:
    """The maps of a file of either kind; of attention with contributions those that raise and those that lower."""
    file = stack.enter_context(open_maps(path))
    chosen = choose_genes(genes, list(file.samples.index), path) if genes else None
    if isinstance(file, AttributionFile):
        return [AttributionMaps(file, genes=chosen)]
    if promoters is None:
        raise BioattnError(
            f"{path}: attention holds no sequences; give the FASTA it was exported from with --promoters"
        )
    contribute = any(info.has_contributions for info in file.sites.values())
    return [
        AttentionMaps(file, promoters, genes=chosen, sites=settings.sites, heads=settings.heads, kind=kind)
        for kind in (SIGNS if contribute else [ATTENTION])
    ]


def _filters(folder: Path, promoters: Path | None) -> list[Motif]:
    import torch

    from bioattn.inference.runner import FirstLayerRunner, with_ability
    from bioattn.models.family import load_runner

    if promoters is None:
        raise SettingsError(
            "--model: its filters are shown by what they match; give sequences with --promoters"
        )
    runner = with_ability(
        load_runner(folder, torch.device("cpu")),
        FirstLayerRunner,
        "show their first layer as motifs",
        "--model",
    )
    source = runner.read(promoters)
    return filter_motifs(runner, np.concatenate([batch.codes for batch in source.batches(1024)]))


def filter_motifs(runner: "FirstLayerRunner", codes_BL: NDArray[np.uint8]) -> list[Motif]:
    """What the first layer of a model matches: motifs named as its filters, without those too vague or rare.

    codes_BL: sequences as the model sees them. Raises: BioattnError when its first layer has no filters.
    """
    motifs = []
    for name, counts in runner.first_layer_matches(codes_BL):
        sites = float(counts[0].sum())
        matrix = trim_vague_ends(counts / sites, MIN_BITS) if sites >= MIN_FILTER_SITES else None
        if matrix is not None:
            motifs.append(Motif(name=name, probabilities=matrix, sites=round(sites)))
    return motifs


def _write_use(folder: Path, sources: Sequence[MotifSource], request: StopRequest, progress: Progress) -> int:
    """Write treatments.tsv and edges.tsv; returns the number of edges."""
    rows: list[dict[str, object]] = []
    number = 0
    with text_output(folder / EDGES) as file:
        file.write("\t".join(EDGE_HEADER) + "\n")
        for source in sources:
            source.find_use()
            for treatment in watched(progress, f"use of motifs in {source.maps.kind}", source.treatments):
                request.check()
                rows += source.compared(treatment)
                number += write_edges(file, source.edges(treatment), source.maps)
    table = pd.DataFrame(rows, columns=[*USE_COLUMNS, "q_value"])
    table["q_value"] = np.nan
    # Over all tests against the background, and over all others.
    for part in (table["reference"] == BACKGROUND, table["reference"] != BACKGROUND):
        p_values = table.loc[part, "p_value"].to_numpy(dtype=np.float64)
        table.loc[part, "q_value"] = benjamini_hochberg(p_values)
    write_table(folder / TREATMENTS, table, _NUMBERS)
    return number


def _record(
    folder: Path,
    settings: MotifSettings,
    sources: Sequence[MotifSource],
    motifs: Sequence[Motif],
    inputs: Mapping[str, Path],
    edges: int,
) -> dict[str, Any]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        **MOTIF_FOLDER.header,
        "motifs": len(motifs),
        "edges": edges,
        "promoters": max((len(source.maps.codes) for source in sources), default=0),
        "treatments": max((len(source.treatments) for source in sources), default=0),
        "settings": asdict(settings),
        "sources": {
            name: {"file": path.name, "sha256": sha256_of(path / WEIGHTS if path.is_dir() else path)}
            for name, path in inputs.items()
        },
        "files": [{"file": path.relative_to(folder).as_posix(), "sha256": sha256_of(path)} for path in files],
    }
