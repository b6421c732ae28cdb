"""Results as arrays of others: AnnData (`.h5ad`) for scanpy and its like, NumPy archives for TF-MoDISco.

`docs/formats/anndata.md` defines the first. The second is a folder with `sequences.npz` (one-hot, N only zeros),
an archive of hypothetical contributions for each treatment (both `arr_0`, float32, (genes, 4, positions), bases
A C G T), `treatments.tsv` (treatment, file), `genes.tsv` (row, gene and position) and `arrays.json`, its record.

Shapes: G genes, T treatments, K bins.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.choices import require_names
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.npz import npz_output
from bioattn.formats.tables import write_table
from bioattn.interpret.choices import ExportArrays
from bioattn.interpret.file_kinds import (
    ANNDATA_FORMAT,
    ARRAY_FOLDER,
    GENES,
    SEQUENCES,
    TREATMENTS,
    file_stems,
)
from bioattn.interpret.promoter_maps import Quantity, attention_maps
from bioattn.io.files import atomic_output, sha256_of
from bioattn.io.folders import atomic_folder
from bioattn.io.hdf5 import hdf5_output, is_hdf5
from bioattn.models.running import Running, RunReport
from bioattn.promoters.choices import Layout, ResponseColumns
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.promoters.responses import read_responses
from bioattn.store.attribution import Attribution, open_attribution
from bioattn.store.reader import Attention, open_attention
from bioattn.system.progress import Progress, watched
from bioattn.text import counted

if TYPE_CHECKING:
    from anndata import AnnData

SUFFIX = ".h5ad"
KEY = "attention"
"""Start of the names of maps: `attention:heat`."""


def export_arrays(given: ExportArrays, running: Running) -> RunReport:
    """Write what the name of the output says.

    Raises: SettingsError for choices that the output has no use for; as the writers of both.
    """
    chooses = given.sites or given.heads is not None or given.value_weighted
    if given.output.name.endswith(SUFFIX):
        return _export_anndata(given, running.progress, chooses=bool(chooses))
    if chooses:
        raise SettingsError(
            f"--output {given.output}: --sites, --heads and --value-weighted are for AnnData; end its name in "
            f"{SUFFIX}"
        )
    return _export_attribution(given, running.progress)


def _export_anndata(given: ExportArrays, progress: Progress, *, chooses: bool) -> RunReport:
    """Write a table of predictions, or a file of attention over promoters, as AnnData.

    Predictions: genes × treatments as X. Attention: the same, as far as the file holds predictions, and for each
    treatment a map (G, K) in `obsm`, the mean over sites and heads. chooses: whether parts are chosen.

    Raises: BioattnError when anndata is not installed, or for choices that do not fit the file; FormatError for a
    damaged file.
    """
    path, treatments, genes = given.file, given.treatment, given.genes
    try:
        from anndata.io import write_elem
    except ImportError:
        raise BioattnError(
            "AnnData files need anndata, which is not installed: pip install anndata"
        ) from None
    if not is_hdf5(path):
        if chooses:
            raise BioattnError(
                f"{path}: holds predictions; --sites, --heads and --value-weighted choose in attention"
            )
        predictions = read_predictions(path)
        require_names("--treatment", treatments, list(predictions.columns), path)
        ids = choose_genes(genes, list(predictions.index), path) if genes else predictions.index
        chosen = predictions.loc[ids, list(treatments) or list(predictions.columns)]
        settings = {"content": "predictions", "predictions_sha256": sha256_of(path)}
        data = _anndata(chosen.index, chosen.columns, settings, X=chosen.to_numpy(np.float64))
    else:
        with open_attention(path) as attention:
            data = _promoters_anndata(attention, given, progress)
    with atomic_output(given.output) as temporary, hdf5_output(temporary) as (file, _):
        write_elem(file, "/", data)
        file.attrs["format"], file.attrs["format_version"] = ANNDATA_FORMAT, "1.0"
    return RunReport(
        f"wrote {given.output}: {data.n_obs:,} × {data.n_vars:,}, {counted(len(data.obsm), 'map')}",
        observations=data.n_obs,
        variables=data.n_vars,
        maps=len(data.obsm),
    )


def read_predictions(path: Path) -> pd.DataFrame:
    """A table of `run promoter`: genes × treatments. Raises: FormatError, with the line, for any other table."""
    read = read_responses([path], ResponseColumns(layout=Layout.WIDE))
    if read.duplicated:
        raise FormatError(f"{path}: gene {next(iter(read.duplicated))!r} is named twice")
    return pd.DataFrame(read.values, read.gene_ids, read.treatments)


def _promoters_anndata(attention: Attention, given: ExportArrays, progress: Progress) -> "AnnData":
    """Genes × treatments with a map (G, K) of each treatment in `obsm`."""
    treatments, genes = given.treatment, given.genes
    quantity = Quantity.VALUE_WEIGHTED if given.value_weighted else Quantity.ATTENTION
    maps = attention_maps(attention, given.sites, given.heads, quantity)
    known = maps.treatments
    require_names("--treatment", treatments, known, attention.path)
    names = list(treatments) or list(known)
    samples = attention.samples
    ids = choose_genes(genes, GeneNames.in_samples(samples), attention.path) if genes else list(samples.index)
    numbers = np.sort(samples.index.get_indexer(pd.Index(ids)))
    located = samples.iloc[numbers]
    values = None
    if attention.treatments:
        values = attention.predictions().loc[located.index, names].to_numpy(np.float32)
    # A model whose attention does not tell treatments apart has one map for all.
    keys: dict[str, str | None] = {KEY: None}
    if maps.tells_apart:
        # A slash would make a group of a name.
        keys = {f"{KEY}:{name}".replace("/", "|"): name for name in names}
        if len(keys) < len(names):
            raise BioattnError(
                f"{attention.path}: names of treatments differ in / and | alone; choose with --treatment"
            )
    settings: dict[str, Any] = {
        "content": "attention over promoters",
        "sites": [site.name for site in maps.sites],
        "value_weighted": given.value_weighted,
        "window_length": attention.window_length,
        "bin_start": maps.key_edges[:-1],
        "bin_end": maps.key_edges[1:],
        "input_sha256": attention.input_sha256,
        "task": attention.task,
        "downstream": attention.downstream,
        "receptive_field": maps.receptive_field,
        "attention_sha256": sha256_of(attention.path),
        "model_sha256": attention.model_sha256,
        "heads": None if given.heads is None else np.array(given.heads),
    }
    of_treatments = {
        key: maps.read(numbers, keys[key]).astype(np.float32) for key in watched(progress, "maps", keys)
    }
    data = _anndata(located.index, pd.Index(names, dtype=object), settings, X=values, obsm=of_treatments)
    for column in located.columns:
        data.obs[column] = located[column].to_numpy()
    if maps.tells_apart:
        data.var["attention"] = list(keys)
    return data


def _anndata(rows: pd.Index, columns: pd.Index, settings: Mapping[str, Any], **arrays: Any) -> "AnnData":
    from anndata import AnnData

    known = {name: value for name, value in settings.items() if value is not None}
    return AnnData(
        obs=pd.DataFrame(index=rows.astype(str).rename(None)),
        var=pd.DataFrame(index=columns.astype(str).rename(None)),
        uns={"bioattn": {"generated_by": f"bioattn {__version__}", **known}},
        **arrays,
    )


ARRAY = "arr_0"
BLOCK_BYTES = 1 << 24


def _export_attribution(given: ExportArrays, progress: Progress) -> RunReport:
    """Write a folder of NumPy archives; genes that are chosen stand in the order of the choice.

    Raises: BioattnError for names that the file does not hold, a folder in the way or one that cannot be written;
    SettingsError for a treatment named twice; FormatError when the file is damaged.
    """
    attribution, output, treatments = given.file, given.output, given.treatment
    names = ARRAY_FOLDER.check_output(output, [attribution], force=given.force)
    with open_attribution(attribution) as file:
        require_names("--treatment", treatments, file.treatments, attribution)
        chosen = list(treatments) or file.treatments
        ids = list(file.samples.index)
        if given.genes:
            ids = choose_genes(given.genes, GeneNames.in_samples(file.samples), attribution)
        files = [f"{stem}.npz" for stem in file_stems(["sequences", *chosen])[1:]]
        with atomic_folder(output, names | {SEQUENCES, TREATMENTS, GENES, *files}) as folder:
            shape = (len(ids), 4, file.window_length)
            arrays = list(zip([SEQUENCES, *files], [None, *chosen], strict=True))
            for name, treatment in watched(progress, "arrays", arrays):
                with npz_output(folder / name) as archive:
                    blocks = _blocks(file, ids, treatment)
                    archive.write_blocks(ARRAY, shape, np.dtype(np.float32), blocks)
            write_table(folder / TREATMENTS, pd.DataFrame({"treatment": chosen, "file": files}))
            rows = pd.DataFrame({"row": np.arange(len(ids)), "gene_id": ids})
            write_table(folder / GENES, rows.join(file.samples.loc[ids].reset_index(drop=True)))
            record = {
                "model_sha256": file.model_sha256,
                "input_sha256": file.input_sha256,
                "attribution_sha256": sha256_of(attribution),
                "method": file.method,
                "method_settings": file.method_settings,
                "window_length": file.window_length,
                "genes": len(ids),
                "treatments": chosen,
            }
            ARRAY_FOLDER.write(folder, record)
    scope = f"{counted(len(chosen), 'treatment')} of {counted(len(ids), 'gene')}"
    return RunReport(f"wrote {output}: sequences and {scope}", treatments=len(chosen), genes=len(ids))


def _blocks(file: Attribution, ids: Sequence[str], treatment: str | None) -> Iterator[NDArray[np.float32]]:
    step = max(1, BLOCK_BYTES // (16 * file.window_length))
    whole = list(ids) == list(file.samples.index)
    for first in range(0, len(ids), step):
        # All genes in file order are read as slices, which is quicker than one by one.
        gene = slice(first, first + step) if whole else list(ids[first : first + step])
        if treatment is None:
            codes = file.sequences(gene=gene)
            yield (codes[:, None] == np.arange(4, dtype=np.uint8)[:, None]).astype(np.float32)
        else:
            yield file.values(gene=gene, treatment=treatment).transpose(0, 2, 1)
