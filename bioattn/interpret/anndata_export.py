"""Predictions and attention as AnnData (`.h5ad`), which scanpy and its like read: `docs/formats/anndata.md`.

Shapes: G genes, T treatments, K bins, R residues.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.choices import require_names
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import open_table, refuse_duplicate_columns
from bioattn.interpret.file_kinds import ANNDATA_FORMAT
from bioattn.interpret.maps.alignment_maps import choose_maps, head_map, only_sample
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.io.files import atomic_output, sha256_of
from bioattn.io.hdf5_input import is_hdf5
from bioattn.io.hdf5_output import hdf5_output
from bioattn.promoters.gene_ids import choose_genes
from bioattn.store.reader import AttentionFile, open_attention
from bioattn.system.progress import SILENT, Progress

if TYPE_CHECKING:
    from anndata import AnnData

SUFFIX = ".h5ad"
KEY = "attention"
"""Start of the names of maps: `attention:heat`."""


class MapChoice(NamedTuple):
    """Which maps of an attention file are written."""

    sites: tuple[str, ...] = ()
    """Shell patterns; none = all over positions, of alignments row attention."""
    heads: tuple[int, ...] | None = None
    value_weighted: bool = False
    sample: str | None = None
    """Which alignment; None = the only one."""


class Written(NamedTuple):
    """What the file holds."""

    observations: int
    variables: int
    maps: int


def export_anndata(
    path: Path,
    output: Path,
    maps: MapChoice | None = None,
    *,
    treatments: Sequence[str] = (),
    genes: Sequence[str] = (),
    progress: Progress = SILENT,
) -> Written:
    """Write a table of predictions, or a file of attention, as AnnData.

    Predictions: genes × treatments as X. Attention over promoters: the same, as far as the file holds predictions,
    and for each treatment a map (G, K) in `obsm`, the mean over sites and heads. Attention over an alignment:
    residues × residues; each head is a layer (R, R), X their mean. treatments: names, none = all. genes: ids or
    files of ids, none = all.

    Raises: BioattnError when anndata is not installed, for choices that do not fit the file, or an alignment that
    is not chosen; SettingsError for another name of the output; FormatError for a damaged file.
    """
    if not output.name.endswith(SUFFIX):
        raise SettingsError(f"--output {output}: end its name in {SUFFIX}")
    require_anndata()
    maps = maps or MapChoice()
    if not is_hdf5(path):
        if maps != MapChoice():
            raise BioattnError(
                f"{path}: holds predictions; --sites, --heads, --value-weighted and --sample choose in attention"
            )
        return _write_predictions(path, output, treatments, genes)
    with open_attention(path) as attention:
        if not attention.over_alignments:
            return _write_promoters(attention, output, maps, treatments, genes, progress)
        if treatments or genes or maps.value_weighted:
            raise BioattnError(
                f"{path}: holds alignments; choose with --sample, --sites and --heads, without --treatment, "
                "--genes or --value-weighted"
            )
        return _write_alignment(attention, output, maps, progress)


def require_anndata() -> None:
    """Raises: BioattnError when anndata is not installed."""
    try:
        import anndata  # noqa: F401 - a missing library is reported here, once
    except ImportError:
        raise BioattnError(
            "AnnData files need anndata, which is not installed: pip install anndata"
        ) from None


def _write_predictions(path: Path, output: Path, treatments: Sequence[str], genes: Sequence[str]) -> Written:
    predictions = read_predictions(path)
    require_names("--treatment", treatments, list(predictions.columns), path)
    chosen = predictions.loc[
        choose_genes(genes, predictions.index, path) if genes else predictions.index,
        list(treatments) or list(predictions.columns),
    ]
    settings = {"content": "predictions", "predictions_sha256": sha256_of(path)}
    data = _annotated(chosen.index, chosen.columns, chosen.to_numpy(np.float64), settings)
    with _maps_of(data, output, 0, SILENT):
        return Written(*chosen.shape, 0)


def read_predictions(path: Path) -> pd.DataFrame:
    """A table of `run promoter`: genes × treatments, the first column gene ids.

    Raises: FormatError, with the line, for a cell that is no number or a gene that is named twice.
    """
    table = open_table(path)
    refuse_duplicate_columns(table)
    rows: dict[str, list[float]] = {}
    for line, (gene, *cells) in table.rows():
        if gene in rows:
            raise FormatError(f"{path}:{line}: gene {gene!r} is named twice")
        try:
            rows[gene] = [float(cell) if cell else np.nan for cell in cells]
        except ValueError:
            raise FormatError(
                f"{path}:{line}: holds a cell that is no number; give a table of `bioattn run promoter`, or an "
                "attention file"
            ) from None
    if not rows or len(table.header) < 2:
        raise FormatError(f"{path}: holds no predictions; give a table of `bioattn run promoter`")
    return pd.DataFrame.from_dict(rows, orient="index", columns=table.header[1:], dtype=np.float64)


def _write_promoters(
    attention: AttentionFile,
    output: Path,
    choice: MapChoice,
    treatments: Sequence[str],
    genes: Sequence[str],
    progress: Progress,
) -> Written:
    found = position_maps(attention, choice.sites, choice.heads, value_weighted=choice.value_weighted)
    known = attention.treatments or found.treatments or []
    require_names("--treatment", treatments, known, attention.path)
    names = list(treatments) or list(known)
    samples = attention.samples
    ids = choose_genes(genes, samples.index, attention.path) if genes else list(samples.index)
    numbers = np.sort(samples.index.get_indexer(pd.Index(ids)))
    places = samples.iloc[numbers]
    values = None
    if attention.treatments:
        values = attention.predictions().loc[places.index, names].to_numpy(np.float32)
    settings: dict[str, Any] = {
        "content": "attention over promoters",
        "sites": [info.name for info in found.sites],
        "value_weighted": choice.value_weighted,
        "window_length": attention.window_length,
        "bin_start": found.key_edges[:-1],
        "bin_end": found.key_edges[1:],
        "input_sha256": attention.input_sha256,
        "task": attention.task,
        **({} if attention.downstream is None else {"downstream": attention.downstream}),
        **({} if found.receptive_field is None else {"receptive_field": found.receptive_field}),
        **_source(attention, choice),
    }
    data = _annotated(places.index, pd.Index(names, dtype=object), values, settings)
    for column in places.columns:
        data.obs[column] = places[column].to_numpy()
    # A model whose attention does not tell treatments apart has one map for all.
    asked: dict[str, str | None] = {KEY: None}
    if found.treatments is not None:
        # A slash would make a group of a name.
        asked = {f"{KEY}:{name}".replace("/", "|"): name for name in names}
        if len(asked) < len(names):
            raise BioattnError(
                f"{attention.path}: names of treatments differ in / and | alone; choose with --treatment"
            )
        data.var["attention"] = list(asked)
    with _maps_of(data, output, len(asked), progress) as file:
        for key, name in asked.items():
            _add(file["obsm"], key, found.read(numbers, name).astype(np.float32), progress)
    return Written(len(places), len(names), len(asked))


def _write_alignment(
    attention: AttentionFile, output: Path, choice: MapChoice, progress: Progress
) -> Written:
    sample = only_sample(attention, choice.sample)
    sites = choose_maps(attention, choice.sites, choice.heads)
    for info, _ in sites:
        if info.kind("key") != "residue":
            raise BioattnError(
                f"{attention.path}: site {info.name} looks from sequence to sequence, not at residues; choose "
                "others with --sites"
            )
    chosen = [(info, head) for info, own in sites for head in own]
    letters = list(str(attention.samples["query"].loc[sample]))
    columns = attention.columns(sample) + 1
    names = pd.Index(
        [f"{letter}{column}" for letter, column in zip(letters, columns, strict=True)], dtype=object
    )
    settings: dict[str, Any] = {
        "content": "attention over an alignment",
        "sample": sample,
        "input_sha256": str(attention.samples["input_sha256"].loc[sample]),
        "sites": [info.name for info, _ in sites],
        **_source(attention, choice),
    }
    data = _annotated(names, names, np.zeros((len(names), len(names)), np.float32), settings)
    for table in (data.obs, data.var):
        table["column"], table["letter"] = columns, letters
    mean_RR = np.zeros((len(names), len(names)))
    with _maps_of(data, output, len(chosen), progress) as file:
        for info, head in chosen:
            map_RR = head_map(attention, info, sample, head)
            mean_RR += map_RR / len(chosen)
            key = f"{info.name}:{info.reduce if head is None else head}"
            _add(file["layers"], key, map_RR.astype(np.float32), progress)
        file["X"][...] = mean_RR.astype(np.float32)
    return Written(len(names), len(names), len(chosen))


def _source(attention: AttentionFile, choice: MapChoice) -> dict[str, Any]:
    source: dict[str, Any] = {
        "attention_sha256": sha256_of(attention.path),
        "model_sha256": attention.model_sha256,
    }
    if choice.heads is not None:
        source["heads"] = np.array(choice.heads)
    return source


def _annotated(
    rows: pd.Index, columns: pd.Index, values: NDArray[Any] | None, settings: dict[str, Any]
) -> "AnnData":
    from anndata import AnnData

    return AnnData(
        X=values,
        obs=pd.DataFrame(index=rows.astype(str).rename(None)),
        var=pd.DataFrame(index=columns.astype(str).rename(None)),
        uns={"bioattn": {"generated_by": f"bioattn {__version__}", **settings}},
    )


@contextmanager
def _maps_of(data: "AnnData", output: Path, number: int, progress: Progress) -> Iterator[h5py.File]:
    """Write the file without maps and give it open: maps are added one by one, so that memory stays flat."""
    from anndata.io import write_elem

    progress.begin("maps", number)
    try:
        with atomic_output(output) as temporary, hdf5_output(temporary) as (file, _):
            write_elem(file, "/", data)
            file.attrs["format"], file.attrs["format_version"] = ANNDATA_FORMAT, "1.0"
            yield file
    finally:
        progress.end()


def _add(group: h5py.Group, key: str, values: NDArray[np.float32], progress: Progress) -> None:
    from anndata.io import write_elem

    write_elem(group, key, values)
    progress.advance()
