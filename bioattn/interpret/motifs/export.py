"""`bioattn export motifs`: from maps to motifs, their matches in a database, and their use by treatment.

Where a reference is held, peaks are where the map gains against it, which finds what is particular to a treatment;
else where it is high. A position that is high in all promoters (near the start of transcription, say) is no peak:
the mean over promoters is taken off first. Treatments are worked through one after the other, promoters in blocks;
what is kept of a treatment are its matrices and the positions of its seqlets.

The tables of the folder are those of `docs/formats/motifs.md`.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import MEAN, require_names, require_reference
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.meme import UNIFORM_BACKGROUND, Motif, MotifDatabase, read_meme, write_meme
from bioattn.formats.tables import write_table
from bioattn.interpret.choices import ExportMotifs
from bioattn.interpret.file_kinds import EDGES, LOGOS, MEME, MOTIF_FOLDER, MOTIFS, TREATMENTS
from bioattn.interpret.motifs.discovery import MIN_BITS, trim_vague_ends
from bioattn.interpret.motifs.hits import base_composition
from bioattn.interpret.motifs.search import SIGNS, Searched, find_motifs, motif_row
from bioattn.interpret.motifs.tomtom import tomtom
from bioattn.interpret.motifs.use import (
    BACKGROUND,
    EDGE_COLUMNS,
    USE_COLUMNS,
    benjamini_hochberg,
    compare_use,
    edges,
)
from bioattn.interpret.promoter_maps import (
    PromoterMaps,
    Quantity,
    attention_maps,
    attribution_maps,
    chosen_quantity,
    codes_of_genes,
    open_results,
)
from bioattn.io.files import sha256_of
from bioattn.io.folders import atomic_folder
from bioattn.models.family import WEIGHTS
from bioattn.models.running import Running, RunReport
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.store.attribution import Attribution
from bioattn.store.reader import Attention
from bioattn.store.windows import genomic_interval
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")

MOTIF_HEADER = (
    *("motif", "source", "consensus", "width", "seqlets", "information_bits", "treatments"),
    *("surest_treatment", "share", "control_share", "log10_p"),
    *("match", "match_name", "match_p_value", "match_q_value"),
)
EDGE_HEADER = (
    *("treatment", "motif", "factor", "gene_id", "gene_name", "start", "end", "strand"),
    *("chrom", "genomic_start", "genomic_end", "genomic_strand"),
    *EDGE_COLUMNS[6:],
)
FILTER = "filter"
MATCHED = 0.05
"""Largest q-value of a match that is counted."""
MIN_FILTER_SITES = 10
FEW_TARGETS = 50
"""With fewer motifs in the database p-values depend much on which they are; MEME's tomtom warns below this too."""
_NUMBERS = "%.5g"


def export_motifs(
    given: ExportMotifs, running: Running, draw_logo: Callable[[Motif, Path], None] | None = None
) -> RunReport:
    """Write a folder of motifs (`docs/formats/motifs.md`). draw_logo: draws a motif into a file; None = no logos.

    Raises: BioattnError for files that are neither, promoters that do not fit or a folder in the way;
    SettingsError for settings that contradict each other.
    """
    files, output, settings, treatments = given.files, given.output, given.settings, given.treatment
    promoters, model, database, progress = given.promoters, given.model, given.database, running.progress
    others = {"promoters": promoters, "model": model, "database": database}
    own_names = MOTIF_FOLDER.check_output(output, [*files, *filter(None, others.values())], force=given.force)
    if not files and model is None:
        raise SettingsError("give an attention or attribution file, or --model for the motifs of its filters")
    targets = None if database is None else read_meme(database)
    with ExitStack() as stack:
        sources = [searched for path in files for searched in _open(stack, path, given)]
        kinds = [searched.kind for searched in sources]
        if len(set(kinds)) < len(kinds):
            raise BioattnError(f"two {kinds[0]} files: give one of each kind, or run the command for each")
        if kinds in ([], [Quantity.ATTRIBUTION]) and (settings.heads is not None or settings.sites != ("*",)):
            option = "--sites" if settings.heads is None else "--heads"
            raise BioattnError(f"{option} chooses in attention, which is not given; leave it out")
        for maps in (searched.maps for searched in sources):
            require_names("--treatment", treatments, maps.treatments, maps.path)
            require_reference("--against", settings.against, maps.treatments, maps.path)
            if list(treatments or maps.treatments) == [settings.against]:
                raise BioattnError(f"--against {settings.against!r}: is the only treatment; name others")
        filters = [] if model is None else _filters(model, promoters)
        with atomic_folder(output, own_names) as folder:
            families: list[list[Motif]] = []
            rows: list[dict[str, object]] = []
            use: list[dict[str, object]] = []
            of_edges = [pd.DataFrame(columns=list(EDGE_HEADER))]
            for searched in sources:
                chosen = list(treatments or searched.maps.treatments)
                found, seqlets = find_motifs(searched, chosen, settings, progress)
                families.append([motif.motif for motif in found])
                rows += [motif.row for motif in found]
                known = searched.maps.treatments
                reference = settings.against or MEAN
                if reference == MEAN and len(known) == 1:
                    reference = known[0]
                holding = {motif.motif.name: motif.seqlets for motif in found}
                use += [
                    row | {"seqlets": holding[str(row["motif"])][str(row["treatment"])]}
                    for row in compare_use(searched, families[-1], chosen, reference, progress)
                ]
                for treatment in chosen:
                    motifs = [motif.motif for motif in found if motif.seqlets[treatment]]
                    table = edges(searched, treatment, seqlets[treatment], motifs)
                    of_edges.append(_on_chromosomes(table, searched.maps))
            families.append(filters)
            rows += [motif_row(motif, FILTER) for motif in filters]
            every = [motif for family in families for motif in family]
            matches = None if targets is None else match_motifs(families, targets)
            if matches is not None:
                every = [_named(*pair) for pair in zip(every, matches.to_dict("records"), strict=True)]
            factors = {motif.name: motif.alternative_name or "" for motif in every}
            table = pd.DataFrame(rows, columns=list(MOTIF_HEADER))
            if matches is not None:
                for name in ("match", "match_name", "p_value", "q_value"):
                    table[name if name in table else f"match_{name}"] = matches[name].to_numpy()
            table = table.astype(dict.fromkeys(("width", "seqlets", "treatments"), "Int64"))
            write_table(folder / MOTIFS, table, _NUMBERS)
            background = base_composition(sources[0].codes) if sources else UNIFORM_BACKGROUND
            write_meme(folder / MEME, every, background)
            write_table(folder / TREATMENTS, _use_table(use, factors), _NUMBERS)
            edge_table = pd.concat([table for table in of_edges if len(table)] or of_edges)
            edge_table["factor"] = edge_table["motif"].map(factors)
            write_table(folder / EDGES, edge_table, _NUMBERS)
            if draw_logo is not None and every:
                (folder / LOGOS).mkdir()
                for motif in every:
                    draw_logo(motif, folder / LOGOS / f"{motif.name}.svg")
            inputs = {searched.kind: searched.maps.path for searched in sources} | {
                n: p for n, p in others.items() if p
            }
            record: dict[str, Any] = {
                "motifs": len(every),
                "edges": len(edge_table),
                "promoters": max((len(searched.codes) for searched in sources), default=0),
                "treatments": max(
                    (len(treatments or searched.maps.treatments) for searched in sources), default=0
                ),
                "settings": asdict(settings),
                "sources": {
                    name: {"file": path.name, "sha256": sha256_of(path / WEIGHTS if path.is_dir() else path)}
                    for name, path in inputs.items()
                },
            }
            MOTIF_FOLDER.write(folder, record)
    by_source = Counter(str(row["source"]) for row in rows)
    found_motifs = ", ".join(counted(number, f"{source} motif") for source, number in by_source.items())
    told = ""
    if matches is not None:
        told = f"; {(matches['q_value'] < MATCHED).sum():,} with a match in the database (q < {MATCHED:g})"
    sizes = (counted(record[f"{noun}s"], noun) for noun in ("treatment", "promoter", "edge"))
    return RunReport(
        f"wrote {output}: {found_motifs or 'no motif'}{told}; {', '.join(sizes)}",
        motifs=by_source,
        edges=len(edge_table),
    )


def _open(stack: ExitStack, path: Path, given: ExportMotifs) -> list[Searched]:
    """The maps of a file of either kind; of contributions of attention those that raise and those that lower."""
    file = stack.enter_context(open_results(path))
    if isinstance(file, Attribution):
        maps = attribution_maps(file)
    elif given.promoters is None:
        raise BioattnError(
            f"{path}: attention holds no sequences; give the FASTA it was exported from with --promoters"
        )
    else:
        settings = given.settings
        wanted = chosen_quantity(weights=settings.weights)
        maps = attention_maps(file, settings.sites, settings.heads, wanted)
    if given.genes:
        maps = maps.chosen(choose_genes(given.genes, GeneNames.in_samples(maps.samples), path))
    codes = maps.codes
    if codes is None:
        assert given.promoters is not None
        assert isinstance(file, Attention)
        codes = codes_of_genes(given.promoters, file, maps.samples)
    kinds = SIGNS if maps.quantity is Quantity.CONTRIBUTIONS else [str(maps.quantity)]
    return [Searched(kind=kind, maps=maps, codes=codes) for kind in kinds]


def _filters(folder: Path, promoters: Path | None) -> list[Motif]:
    import torch

    from bioattn.inference.runner import with_ability
    from bioattn.models.family import load_runner

    if promoters is None:
        raise SettingsError(
            "--model: its filters are shown by what they match; give sequences with --promoters"
        )
    loaded = load_runner(folder, torch.device("cpu"))
    runner = with_ability(loaded, "first_layer_matches", "show their first layer as motifs", "--model")
    source = runner.read(promoters)
    return filter_motifs(runner, np.concatenate([batch.codes for batch in source.batches(1024)]))


def filter_motifs(runner: Any, codes_BL: NDArray[np.uint8]) -> list[Motif]:
    """Motifs that the first layer of a model matches, named as its filters, without those too vague or rare.

    codes_BL: sequences as the model sees them. Raises: BioattnError when its first layer has no filters.
    """
    motifs = []
    for name, counts in runner.first_layer_matches(codes_BL):
        sites = float(counts[0].sum())
        matrix = trim_vague_ends(counts / sites, MIN_BITS) if sites >= MIN_FILTER_SITES else None
        if matrix is not None:
            motifs.append(Motif(name=name, probabilities=matrix, sites=round(sites)))
    return motifs


# --- matches in a database ----------------------------------------------------------------------------------


def match_motifs(families: Sequence[Sequence[Motif]], database: MotifDatabase) -> pd.DataFrame:
    """The best match of each motif: columns motif, match, match_name (its second name), p_value and q_value.

    families: motifs that belong together, as those of one kind of map. The q-value is Benjamini & Hochberg's over
    all pairs of a motif of the family and a database motif. The best match is always given, whatever its q-value.
    """
    motifs = [motif for family in families for motif in family]
    if not motifs:
        return pd.DataFrame(columns=["motif", "match", "match_name", "p_value", "q_value"])
    if len(database.motifs) < FEW_TARGETS:
        LOGGER.warning(
            f"the database holds {len(database.motifs)} motifs only; TOMTOM's p-values take their background from "
            f"its columns and are rough below {FEW_TARGETS}"
        )
    p_values = tomtom(*([motif.probabilities for motif in several] for several in (motifs, database.motifs)))
    family_of = np.repeat(np.arange(len(families)), [len(family) for family in families])
    q_values = np.empty_like(p_values)
    for number in range(len(families)):
        q_values[family_of == number] = benjamini_hochberg(p_values[family_of == number])
    best = p_values.argmin(axis=1)
    rows = np.arange(len(motifs))
    return pd.DataFrame(
        {
            "motif": [motif.name for motif in motifs],
            "match": [database.motifs[number].name for number in best],
            "match_name": [database.motifs[number].alternative_name for number in best],
            "p_value": p_values[rows, best],
            "q_value": q_values[rows, best],
        }
    )


def _named(motif: Motif, match: Mapping[Any, Any]) -> Motif:
    """The motif with the name of the factor that it resembles, as pictures show it."""
    is_match = match["q_value"] <= MATCHED
    return replace(motif, alternative_name=(match["match_name"] or match["match"]) if is_match else "")


def _use_table(rows: Sequence[dict[str, object]], factors: Mapping[str, str]) -> pd.DataFrame:
    """treatments.tsv: q-values over all tests against the background, and over all others."""
    table = pd.DataFrame(rows, columns=[*USE_COLUMNS, "q_value"])
    table.insert(2, "factor", table["motif"].map(factors))
    table["q_value"] = np.nan
    for part in (table["reference"] == BACKGROUND, table["reference"] != BACKGROUND):
        p_values = table.loc[part, "p_value"].to_numpy(dtype=np.float64)
        table.loc[part, "q_value"] = benjamini_hochberg(p_values)
    return table


def _on_chromosomes(table: pd.DataFrame, maps: PromoterMaps) -> pd.DataFrame:
    """Add to edges genes' names and positions on chromosomes, empty where a promoter has none."""
    located = maps.samples.loc[table["gene_id"]].set_index(table.index)
    begin: Any = located["start"].to_numpy()
    end: Any = located["end"].to_numpy()
    window = table["start"].to_numpy(), table["end"].to_numpy()
    plus, minus = (genomic_interval(*window, begin, end, strand, maps.window_length) for strand in ("+", "-"))
    is_plus, is_placed = located["strand"] == "+", located["strand"].isin(["+", "-"])
    low, high = (
        pd.Series(np.where(is_plus, *of_strands), index=table.index).where(is_placed).astype("Int64")
        for of_strands in zip(plus, minus, strict=True)
    )
    same = located["strand"] == table["strand"]
    return table.assign(
        factor="",
        gene_name=located.get("name", ""),
        chrom=located["chrom"],
        genomic_start=low,
        genomic_end=high,
        genomic_strand=np.where(is_placed, np.where(same, "+", "-"), ""),
    )[list(EDGE_HEADER)]
