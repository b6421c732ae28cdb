"""A Phyloformer model that is ready to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from bioattn.errors import SettingsError
from bioattn.inference.alignment_inputs import alignments_in
from bioattn.inference.inputs import python_warnings
from bioattn.io.files import sha256_of
from bioattn.models.attention_settings import attention_options
from bioattn.models.model_folder import LoadedModel, Sites, load_model
from bioattn.models.phyloformer.config import PhyloformerConfig
from bioattn.models.phyloformer.model import Phyloformer
from bioattn.models.phyloformer.parameters import read_parameters
from bioattn.store.contents import Collector
from bioattn.store.reader import Attention

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

MODEL_TYPE = "phyloformer"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedPhyloformer(LoadedModel[Phyloformer, PhyloformerConfig]):
    """A Phyloformer: evolutionary distances of the sequences of an alignment, and trees of them.

    `inputs` of its methods are the path of an alignment, or a folder or list of them; an `Alignment`; or its rows
    by name, or a list of rows.
    """

    family: ClassVar[str] = MODEL_TYPE

    path: Path
    """The file or folder it was loaded from."""

    def predict(self, inputs: Any) -> "pd.DataFrame":
        """Estimate distances in expected substitutions per site, sequences × sequences.

        Of several alignments the matrices stand below each other, their names in the index.

        Raises: BioattnError for alignments that cannot be read.
        """
        import pandas as pd

        with python_warnings():
            matrices, several = self._distances(inputs)
        tables = {
            name: pd.DataFrame(distances_NN, index=pd.Index(rows, name="sequence"), columns=rows)
            for name, (rows, distances_NN) in matrices.items()
        }
        return pd.concat(tables) if several else next(iter(tables.values()))

    def trees(self, inputs: Any, *, method: str = "bme") -> dict[str, str]:
        """Build a tree of each alignment, as Newick by its name (needs scikit-bio).

        method: `bme`, balanced minimum evolution, or `nj`, neighbour joining. Raises: as `predict`.
        """
        from bioattn.models.phyloformer.trees import (
            balanced_minimum_evolution,
            neighbour_joining,
            require_scikit_bio,
        )

        builders = {"bme": balanced_minimum_evolution, "nj": neighbour_joining}
        if method not in builders:
            raise SettingsError(f"method={method!r}: one of {', '.join(builders)} is needed")
        require_scikit_bio()
        with python_warnings():
            matrices, _ = self._distances(inputs)
        return {name: builders[method](rows, distances_NN) for name, (rows, distances_NN) in matrices.items()}

    def attention(
        self,
        inputs: Any,
        *,
        sites: str | Sequence[str] = "*",
        heads: Sequence[int] | None = None,
        dtype: str = "float32",
        reduce: str = "none",
        top_k: int = 16,
    ) -> Attention:
        """Return the attention weights over alignments, in memory.

        sites: shell patterns of names among `model.sites`. heads: numbers of those kept; None = all. dtype:
        float32 or float16. reduce: `none`, `mean-rows`, `max-rows`, `mean-heads`, `max-heads`, or `top-k`, the
        largest `top_k` of each query.

        Raises: as `predict`; BioattnError for sites or heads that the model lacks.
        """
        options = attention_options(sites=sites, heads=heads, dtype=dtype, reduce=reduce, top_k=top_k)
        from bioattn.models.phyloformer.inference.runner import PhylogenyRunner

        with python_warnings():
            kept = Collector(PhylogenyRunner(self).layout(options))
            self._distances(inputs, kept)
        return Attention(kept.contents())

    def _distances(
        self, inputs: Any, kept: Collector | None = None
    ) -> "tuple[dict[str, tuple[list[str], NDArray[np.float64]]], bool]":
        """Names and distances (N, N) of each alignment, and whether these are several."""
        from bioattn.models.phyloformer.inference.runner import PhylogenyRunner

        runner = PhylogenyRunner(self)
        given, several = alignments_in(inputs)
        found = {}
        for one in given:
            prepared = runner.prepared(*one)
            found[one.source.name] = (prepared.alignment.names, runner.distances(prepared, one.source, kept))
        return found, several

    @property
    def sites(self) -> Sites:
        """Attention sites by name."""
        return Sites(self.model.attention_sites())


def load_phyloformer(path: Path, device: torch.device) -> LoadedPhyloformer:
    """Load a model folder, or published parameters.

    Raises: as `load_model` or `read_parameters`.
    """
    if path.is_file():
        model, sha256 = read_parameters(path).to(device), sha256_of(path)
    else:
        model, sha256 = load_model(path, MODEL_TYPE, PhyloformerConfig, Phyloformer, device)
    return LoadedPhyloformer(model=model, device=device, sha256=sha256, path=path)
