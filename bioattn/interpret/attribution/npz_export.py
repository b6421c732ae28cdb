"""Attribution as the NumPy archives that TF-MoDISco-lite and tangermeme read.

A folder with `sequences.npz` (one-hot, N only zeros), an archive of hypothetical contributions for each treatment
(both `arr_0`, float32, (genes, 4, positions), bases A C G T), `treatments.tsv` (treatment, file), `genes.tsv`
(row, gene and place) and `arrays.json`, the record of them all.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import require_names
from bioattn.formats.npz import npz_output
from bioattn.formats.tables import write_table
from bioattn.interpret.file_kinds import ARRAY_FOLDER, GENES, SEQUENCES, TREATMENTS, file_stems
from bioattn.io.files import sha256_of, write_json
from bioattn.io.folders import atomic_folder
from bioattn.promoters.genes import choose_genes
from bioattn.store.attribution import Attribution, open_attribution
from bioattn.system.progress import SILENT, Progress, watched

ARRAY = "arr_0"
BLOCK_BYTES = 1 << 24


def export_attribution(
    attribution: Path,
    output: Path,
    *,
    treatments: Sequence[str] = (),
    genes: Sequence[str] = (),
    force: bool = False,
    progress: Progress = SILENT,
) -> dict[str, int]:
    """Write the folder `output`; gives the numbers of `genes` and `treatments` written.

    treatments: names, empty = all. genes: ids or files of ids, empty = all, in that order. force: replace a folder
    that this function made.

    Raises: BioattnError for names that the file does not hold, a folder in the way or one that cannot be written;
    SettingsError for a treatment named twice; FormatError when the file is damaged.
    """
    names = ARRAY_FOLDER.check_output(output, [attribution], force=force)
    with open_attribution(attribution) as file:
        require_names("--treatment", treatments, file.treatments, attribution)
        chosen = list(treatments) or file.treatments
        ids = choose_genes(genes, file.samples.index, attribution) if genes else list(file.samples.index)
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
                **ARRAY_FOLDER.header,
                "model_sha256": file.model_sha256,
                "input_sha256": file.input_sha256,
                "attribution_sha256": sha256_of(attribution),
                "method": file.method,
                "method_settings": file.method_settings,
                "window_length": file.window_length,
                "genes": len(ids),
                "treatments": chosen,
                "sha256": {name: sha256_of(folder / name) for name in (SEQUENCES, *files, TREATMENTS, GENES)},
            }
            write_json(folder / ARRAY_FOLDER.record, record)
    return {"genes": len(ids), "treatments": len(chosen)}


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
