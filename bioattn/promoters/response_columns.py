"""Which columns of a table of responses hold genes, treatments, values, and their tests."""

import fnmatch
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from bioattn.errors import FormatError
from bioattn.formats.tables import TableReader, is_missing, is_number, limit_of
from bioattn.promoters.choices import Layout, ResponseColumns
from bioattn.promoters.genes import GeneNames
from bioattn.text import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRoles:
    """Column indices of one table; None = there is no such column."""

    layout: Layout
    gene: int
    treatment: tuple[int, ...] = ()
    values: tuple[int, ...]
    padj: int | None = None
    effect: bool = False
    """Whether the values are effects that a program computed, infinite where a control is 0."""
    status: int | None = None
    """Cuffdiff's, which is OK where there is an effect."""


# Names are compared in lower case without anything but letters and digits: adj.P.Val = adjpval, gene_id = geneid.
_GENE = ["geneid", "gene", "genes", "ensemblgeneid", "locustag", "orf", "targetid", "featureid", "id"]
_GENE += ["row", "names", "feature", "genename", "genesymbol", "hgncsymbol", "symbol"]
_TREATMENT = ["treatment", "contrast", "comparison", "condition", "sample", "experiment"]
_TREATMENT += ["perturbation", "array"]
_MARKERS = ["avglog2fc", "avglogfc", "logfoldchanges"]
_GROUPS = ["cluster", "group"]
"""Columns of Seurat and scanpy, whose effects `_MARKERS` are; elsewhere they may be groups of genes."""
_EFFECT = ["log2foldchange", "logfc", "log2fc", "lfc", *_MARKERS, "log2ratio", "logfoldchange"]
_VALUE = (*_EFFECT, "value", "response", "expression", "score", "measurement", "logtpm", "tpm")
_PADJ = ["padj", "padjloc", "adjpval", "fdr", "qvalue", "qval", "pvaladj", "adjpvalue", "pvalsadj"]
_PADJ += ["padjust", "svalue", "fdrpvalue"]
_P = ("pvalue", "pval", "p", "pvals", "prob")
# A wide table with such a column is several contrasts side by side, or one whose effect has an unknown name.
_TESTED = re.compile(r"pval|padj|adjp|qval|^fdr|fdr$|^prob$")
_STANDARD_ERROR = ("lfcse", "stderr", "standarderror", "stderror", "se", "seb")
_NO_RESPONSE = re.compile(
    r"unnamed\d+|.*(entrez|ncbigene).*|chr|chrom(osome)?|chromosome(scaffold)?name|seqnames?|(gene)?(start|end)(position)?(bp)?"
    r"|strand|.*biotype|genetype|.*description|product|(gene|transcript|tx|effective|eff)?(length|width)|basemean|aveexpr|logcpm|gweight"
    r"|classcode|nearestrefid|tssid|numexons|.*conf(lo|hi)"
)
"""What says something of genes, not of responses."""
_QUANTITIES = frozenset(("tpm", "fpkm", "expectedcount", "estcounts", "numreads", "coverage"))
"""Of one sample, as RSEM, Salmon, kallisto and StringTie write them."""

_NAMES_TREATMENT = re.compile(r"treat|contrast|compar|condition|cluster|group|sample(?!1$)|perturb|celltype")
"""Names of columns that are preferred where several would tell the rows of a gene apart."""
_OUTCOME = re.compile(
    r"|na|n[sco]|none|yes|true|false|[+-]|ok|notest|lowdata|hidata|fail|(up|down)(\W?regulated)?|unchanged|stable"
    r"|not?\W?(sig(nificant)?|de|change)",
    re.IGNORECASE,
)
"""What columns say of the result of a row, which is no treatment."""
_REPLICATE = ["replicate", "rep", "biorep", "batch", "plate", "lane", "donor"]
_REPLICATE += ["block", "row", "col", "column", "probename", "probeid"]  # spots of microarrays
_SAMPLE = frozenset(("sample", "sampleid", "samplename"))
"""Replicates where another column names the treatment."""
_STATES = frozenset(("OK", "NOTEST", "LOWDATA", "HIDATA", "FAIL"))
"""Of Cuffdiff's `status`; only OK has an effect."""
FEW_LEVELS = 20
FEW_LEFT = 0.05
"""Largest share of the repeated rows that columns of treatments may leave as repetitions, to be averaged; and of
all rows, as symbols come again in a table of one treatment."""


def find_columns(
    reader: TableReader, stated: ResponseColumns, promoters: GeneNames | None = None
) -> ColumnRoles:
    """Find the role of each column of a table.

    The layout is `stated.layout`, or: long when there is a treatment column beside an effect or value column, the
    table has three columns of which the second is text, or genes have several effects (see `_stacked_by`);
    contrast when there is an effect beside a p value or standard error, or alone; else wide. Gene ids are the
    first column, unless it only numbers the rows or another one has more names of `promoters`.

    Raises: FormatError when a column that was named, or that the layout needs, is not there, and for effects of
    one gene that differ with no column to tell them apart.
    """
    gene = _gene_column(reader, stated, promoters)
    names = {_plain(name): index for index, name in reversed(list(enumerate(reader.header))) if index != gene}
    effect = _first(names, _EFFECT)
    if effect is None and "seb" in names:  # sleuth's
        effect = names.get("b")
    value = effect if effect is not None else _first(names, _VALUE)
    named = _first(names, _TREATMENT)
    if named is None and _first(names, _MARKERS) is not None:
        named = _first(names, _GROUPS)
    treatment: tuple[int, ...] = () if named is None else (named,)
    tests = [i for known in (_PADJ, _P, _STANDARD_ERROR) if (i := _first(names, known)) is not None]
    if stated.treatment:
        treatment = tuple(reader.column(name, "--treatment-column") for name in stated.treatment)
    elif stated.layout in (None, Layout.LONG):
        measured = value
        if len(stated.values) == 1 and stated.values[0] in reader.header and (tests or value is not None):
            measured = reader.header.index(stated.values[0])
        if measured is not None:
            others = [i for known in _VALUE if (i := names.get(known)) is not None]
            treatment = (
                _stacked_by(reader, gene, [measured, *tests, *others], effect is not None) or treatment
            )
    # Other names of the gene, such as a symbol beside its id, say nothing of treatments.
    synonyms = {index for name, index in names.items() if name in _GENE}
    rest = [index for index in range(len(reader.header)) if index not in (gene, *synonyms)]
    is_text = [_share_of_text(reader, index) > 0.5 for index in rest]
    layout = stated.layout or Layout.WIDE
    if stated.layout is None:
        if stated.treatment or (treatment and (value is not None or len(rest) == 2 or tests)):
            layout = Layout.LONG
        elif effect is not None and tests:
            layout = Layout.CONTRAST
        elif is_text == [True, False]:
            # Text names treatments where genes come again, it more often; or is called so and says one thing.
            rows = reader.kept_rows()
            genes, texts = ({cells[index] for _, cells in rows} for index in (gene, rest[0]))
            called = _NAMES_TREATMENT.search(_plain(reader.header[rest[0]])) is not None
            if len(texts) <= len(genes) < len(rows) or (called and len(texts) == 1):
                layout = Layout.LONG
    if layout is Layout.WIDE:
        known = promoters is not None and promoters.share([reader.header[gene]]) > 0
        values = _wide_columns(reader, stated, (gene, *synonyms), known)
        if stated.layout is not None or stated.values or values != (effect,):
            return ColumnRoles(layout=layout, gene=gene, values=values)
        layout = Layout.CONTRAST
    if len(stated.values) > 1:
        raise FormatError(
            f"{reader.path}: a {layout} table has one column of values, --value-column names "
            f"{quoted(stated.values)}"
        )
    if stated.values:
        value = reader.column(stated.values[0], "--value-column")
    if layout is Layout.LONG and not treatment:
        text = [index for index, words in zip(rest, is_text, strict=True) if words and index != value]
        if len(text) != 1:
            raise FormatError(
                f"{reader.path}: no column of this long table names the treatment; say which of "
                f"{quoted(reader.header)} with --treatment-column"
            )
        treatment = (text[0],)
    if layout is Layout.LONG and value is None:
        number = [i for i, words in zip(rest, is_text, strict=True) if not words and i not in treatment]
        value = number[0] if len(number) == 1 else None
    if value is None:
        raise FormatError(
            f"{reader.path}: no column of this {layout} table is known to hold the response; say which of "
            f"{quoted(reader.header, 12)} with --value-column"
        )
    status = _first(names, ["status"])
    if status is not None and not {cells[status] for _, cells in reader.sample} <= _STATES:
        status = None
    return ColumnRoles(
        layout=layout,
        gene=gene,
        treatment=treatment if layout is Layout.LONG else (),
        values=(value,),
        effect=value == effect,
        status=status,
        padj=_first(names, _PADJ),
    )


def _gene_column(reader: TableReader, stated: ResponseColumns, promoters: GeneNames | None) -> int:
    if stated.gene is not None:
        return reader.column(stated.gene, "--gene-column")
    columns = [[cells[i] for _, cells in reader.sample] for i in range(len(reader.header))]
    column, first = 0, columns[0]
    named = _first({_plain(name): i for i, name in enumerate(reader.header)}, _GENE)
    known_first = bool(reader.header[0]) and _plain(reader.header[0]) in _GENE
    if (
        named is not None
        and not known_first
        and (
            all(map(str.isdigit, first))
            or _plain(reader.header[0]) in (*_TREATMENT, *_VALUE, *_GROUPS)
            # Row names that R made unique: G, G.1, G.2 (make.unique), G, G1 (rbind).
            or (not reader.header[0] and all(map(str.startswith, first, columns[named])))
        )
    ):
        column = named
    if promoters is not None:
        known = [promoters.share(cells) for cells in columns]
        if max(known) and known[column] <= max(known) / 2:
            column = known.index(max(known))
    return column


def _stacked_by(reader: TableReader, gene: int, measures: Sequence[int], effects: bool) -> tuple[int, ...]:
    """Columns that together tell the rows of one gene apart, so that the table is several contrasts in one.

    measures: columns that are results; the first holds the values, `effects` or others. Of the columns that do,
    and are not results (`_OUTCOME`, numbers that are not whole), those are taken that are fewest, then are named
    like treatments, then have the fewest values; where genes seldom come again, those named so or in blocks. Empty
    where no gene has two values but in replicates.

    Raises: FormatError where effects of a gene differ and no columns do.
    """
    header, rows = reader.header, reader.kept_rows()
    names = given = [cells[gene] for _, cells in rows]
    if not header[gene]:
        names = _without_r_numbers(given)
    frame = pd.DataFrame([cells for _, cells in rows]).assign(gene=names).drop(columns=gene)
    frame = frame[~frame["gene"].map(is_missing)].drop_duplicates()
    replicates = {*_REPLICATE, *(_SAMPLE if {*map(_plain, header)} & {*_TREATMENT} - _SAMPLE else ())}
    same = ["gene", *(i for i, name in enumerate(header) if _plain(name) in replicates and i != gene)]
    repeated = int(frame.duplicated(same).sum())
    if not repeated:
        return ()
    genes = frame["gene"].nunique()
    few = repeated <= FEW_LEFT * len(frame)
    ranked: list[tuple[bool, int, bool, int]] = []
    for index in [index for index in range(len(header)) if index not in (gene, *measures)]:
        values = frame[index].unique().tolist()
        known = bool(_NAMES_TREATMENT.search(_plain(header[index])))
        if (
            1 < len(values) <= genes
            and not all(map(_OUTCOME.fullmatch, values))
            and not any(is_number(value) and not value.isdigit() for value in values)
            and index not in same
            and not _NO_RESPONSE.fullmatch(_plain(header[index]))
            and (known or not few or (frame[index] != frame[index].shift()).sum() == len(values))
        ):
            ranked.append((not known, len(values), values[0].isdigit(), index))
    ranked.sort()
    for size in (1, 2, 3):
        # Two columns of many numbers tell most rows apart by chance.
        candidates = [
            index for _, levels, number, index in ranked if size == 1 or not number or levels <= FEW_LEVELS
        ]
        for chosen in itertools.combinations(candidates[:8], size):
            if frame.duplicated([*same, *chosen]).sum() <= FEW_LEFT * repeated:
                for (_, cells), name in zip(rows, names, strict=True):
                    cells[gene] = name
                return tuple(sorted(chosen))
    differing = frame.groupby("gene", sort=False)[measures[0]].nunique()
    if (
        effects
        and not few
        and names is given
        and differing.max() > 1
        and not any(_plain(name) in _TREATMENT for name in header)
    ):
        name = str(differing.idxmax())
        lines = [number for number, cells in rows if cells[gene] == name]
        raise FormatError(
            f"{reader.path}: {name!r} has different values of {header[measures[0]]!r} in lines "
            f"{quoted(list(map(str, lines)), 3)}, and no column tells its contrast; add one that names it, give "
            "each contrast as NAME=FILE, or say --layout contrast to average the rows of a gene"
        )
    return ()


def _without_r_numbers(names: list[str]) -> list[str]:
    """Row names before R made them unique: G, G1 (rbind), G, G.1 (make.unique) or G...1, G...9 (bind_rows).

    Only where a fifth of them end so; gene names can end so as well.

    >>> _without_r_numbers(["AT1", "AT2", "AT11", "AT2.1"]), _without_r_numbers(["a...1", "b...2"])
    (['AT1', 'AT2', 'AT1', 'AT2'], ['a', 'b'])
    """
    known = set(names)
    bare: list[str] = []
    for name in names:
        stem, dots, _ = name.rpartition("...")
        shorter = (
            name[:end].removesuffix(".")
            for end in range(len(name) - 1, len(name.rstrip("0123456789")) - 1, -1)
        )
        bare.append(stem if dots else next((stem for stem in shorter if stem in known), name))
    changed = sum(map(str.__ne__, bare, names))
    return bare if changed >= len(names) / 5 else names


def _wide_columns(
    reader: TableReader, stated: ResponseColumns, gene: Sequence[int], gene_in_header: bool
) -> tuple[int, ...]:
    """The treatments of a wide table: all columns but text and descriptions, or what the user's patterns match.

    gene: columns of ids and other names of the gene, the ids first.
    """
    header = reader.header
    if stated.values:
        for pattern in stated.values:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in header):
                raise FormatError(
                    f"{reader.path}: --value-column {pattern!r} fits no column; it has {quoted(header[1:], 8)}"
                )
        chosen = [
            index
            for index, name in enumerate(header)
            if index != gene[0] and any(fnmatch.fnmatchcase(name, pattern) for pattern in stated.values)
        ]
    else:
        named = [
            index
            for index in range(len(header))
            if index not in gene and not _NO_RESPONSE.fullmatch(_plain(header[index]))
        ]
        for index in [index for index in named if index < gene[0]]:
            cells = [cells[index] for _, cells in reader.sample]
            if cells[0].isdigit() and cells == [str(int(cells[0]) + row) for row in range(len(cells))]:
                named.remove(index)  # it counts the rows
        chosen = [index for index in named if _share_of_text(reader, index) < 1] or named
        for index in set(named) - set(chosen):
            # The same genes, but others in each row (scanpy's, by rank).
            pairs = [(cells[gene[0]], cells[index]) for _, cells in reader.kept_rows()]
            common = {first for first, _ in pairs} & {second for _, second in pairs}
            if 2 * len(common) > len(pairs) > 2 * sum(first == second for first, second in pairs):
                raise FormatError(
                    f"{reader.path}: {header[gene[0]]!r} and {header[index]!r} name different genes "
                    "in a row; give one file for each (NAME=FILE), or a long table (scanpy's rank_genes_groups_df)"
                )
    if not chosen:
        raise FormatError(
            f"{reader.path}:{reader.header_line}: there is no column of responses beside the gene ids "
            f"({header[gene[0]]!r}); separate columns by tabs or commas"
        )
    names = [header[index] for index in chosen if header[index]]
    points = sum("." in name for name in names)
    if names and all(map(is_number, names)) and (points > 1 or points == len(names) or gene_in_header):
        raise FormatError(
            f"{reader.path}:{reader.header_line}: the first line looks like data ({quoted(names, 3)}); "
            "the table needs a header that names its columns"
        )
    tested = [name for name in names if _TESTED.search(_plain(name))]
    if tested and not stated.values:
        raise FormatError(
            f"{reader.path}: the column {tested[0]!r} looks like a p value, not a response; name the columns to "
            "use with --value-column, or say --layout contrast"
        )
    if len(set(map(_plain, names)) & _QUANTITIES) > 1:
        raise FormatError(
            f"{reader.path}: holds quantities of one sample ({quoted(names)}); join the samples in one table, "
            "genes × samples (tximport), or better: give log2 fold changes of DESeq2 or edgeR"
        )
    for index in chosen:
        example = next(
            ((line, cells[index]) for line, cells in reader.sample if _is_text(cells[index])), None
        )
        if example is not None and _share_of_text(reader, index) > 0.5:
            raise FormatError(
                f"{reader.path}:{example[0]}: the column {header[index]!r} holds text ({example[1]!r}), not "
                "responses; name the columns to use with --value-column, or the kind of table with --layout"
            )
    return tuple(chosen)


def _share_of_text(reader: TableReader, index: int) -> float:
    """The share of text in the sampled values of a column; 0 for an empty one."""
    present = [cells[index] for _, cells in reader.sample if not is_missing(cells[index])]
    return sum(map(_is_text, present)) / max(1, len(present))


def _is_text(cell: str) -> bool:
    # A comma inside a number is a number written badly, which is reported where it stands.
    return not is_missing(cell) and not is_number((limit_of(cell) or cell).replace(",", ""))


def _first(names: dict[str, int], known: Sequence[str]) -> int | None:
    return next((names[name] for name in known if name in names), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
