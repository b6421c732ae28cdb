"""A translation model as a folder of documented files, and a trained one ready to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from bioattn.inference.inputs import Inputs, python_warnings
from bioattn.models.attention_settings import attention_options
from bioattn.models.model_folder import LoadedModel, Sites, load_model
from bioattn.models.translation.config import TranslationModelConfig
from bioattn.models.translation.model import Translator, attention_sites
from bioattn.store.reader import Attention
from bioattn.system.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.checks.record import CheckRecord
    from bioattn.models.translation.head_scorer import TranslationHeadScorer
    from bioattn.models.translation.inference.probe import TranslationProbe


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedTranslator(LoadedModel[Translator, TranslationModelConfig]):
    """A translation model: sequences written for sequences, and where it looks meanwhile.

    `inputs` of its methods are those of `bioattn.inference.inputs`: the path of a FASTA file, a sequence,
    sequences by name, a list or a table.
    """

    family: ClassVar[str] = "translation"

    def predict(
        self,
        inputs: Inputs,
        *,
        beam: int = 1,
        number: int = 1,
        length_penalty: float = 0.6,
        samples: int = 0,
        temperature: float = 1.0,
        top_p: float = 1.0,
        length: int | None = None,
        seed: int = 0,
    ) -> "pd.DataFrame":
        """Write outputs for sources: the table of `run translation`, a row per output.

        beam: outputs that are followed at once; 1: the likeliest token each time. number: outputs to give of a
        beam. length_penalty: 0 orders outputs by likelihood alone. samples: draw so many outputs instead, by
        `seed`, at this temperature, from the likeliest tokens that hold `top_p` of the probability. length: most
        tokens of an output; None = 4 for each of the source, and 10. Constraints on outputs are options of the
        command.

        Raises: FormatError for sources that the model cannot read.
        """
        import pandas as pd

        from bioattn.models.translation.batches import read_sources
        from bioattn.models.translation.inference.attention import tell_longer
        from bioattn.models.translation.inference.search import OUTPUT_COLUMNS, Search, output_rows

        search = Search(
            beam=beam,
            samples=samples,
            length_penalty=length_penalty,
            temperature=temperature,
            top_p=top_p,
            longest=length,
        )
        with python_warnings():
            sources = read_sources(inputs, self.model.source)
            tell_longer(self, [len(tokens) for tokens in sources.values()])
            generator = torch.Generator().manual_seed(seed) if samples else None
            rows = list(output_rows(self, sources, search, None, generator, number))
        return pd.DataFrame(rows, columns=list(OUTPUT_COLUMNS)).set_index("id")

    def score(self, inputs: Inputs, targets: Inputs) -> "pd.DataFrame":
        """Score given outputs, which are called as their sources: the table of `run translation --targets`.

        Raises: FormatError for sequences that the model cannot read; BioattnError for an output without a source.
        """
        import pandas as pd

        from bioattn.models.translation.batches import read_given
        from bioattn.models.translation.inference.search import GIVEN_COLUMNS, given_rows

        with python_warnings():
            rows = list(given_rows(self, read_given(inputs, targets, self.model)))
        return pd.DataFrame(rows, columns=list(GIVEN_COLUMNS)).set_index("id")

    def attention(
        self,
        inputs: Inputs,
        *,
        targets: Inputs | None = None,
        sites: str | Sequence[str] = "*",
        heads: Sequence[int] | None = None,
        dtype: str = "float32",
        reduce: str = "none",
        top_k: int = 16,
        value_weighted: bool = False,
        batch_size: int | None = None,
    ) -> Attention:
        """Return the attention weights of a pass over given outputs, or over the likeliest ones, in memory.

        targets: outputs that are called as their sources; None = the likeliest token at each step. sites: shell
        patterns of names among `model.sites`. heads: numbers of those kept; None = all. dtype: float32 or float16.
        reduce: `none`, `mean-heads`, `max-heads`, or `top-k`, the largest `top_k` of each query. value_weighted:
        also weights times the norm of the value that they multiply. batch_size: pairs per forward pass; None = as
        memory allows.

        Raises: as `score`; BioattnError for sites or heads that the model lacks.
        """
        from bioattn.models.translation.inference.attention import attention_work

        options = attention_options(
            sites=sites, heads=heads, dtype=dtype, reduce=reduce, top_k=top_k, value_weighted=value_weighted
        )
        with python_warnings():
            work, layout = attention_work(self, inputs, targets, options, batch_size)
            return Attention(work.collect(layout))

    def check(
        self, inputs: Path | str, *, dataset: Path | str | None = None, samples: int = 300, seed: int = 0
    ) -> "CheckRecord":
        """Check whether the attention of the model can be believed, on a dataset of pairs (docs/checks.md).

        samples: pairs, drawn by `seed`. Raises: BioattnError for a dataset that does not fit the model.
        """
        from bioattn.checks.engine import CheckSettings, Evidence, check_model

        evidence = Evidence(dataset=None if dataset is None else Path(dataset))
        with python_warnings():
            settings = CheckSettings(samples=samples, seed=seed)
            return check_model(self, Path(inputs), evidence, settings=settings)

    @property
    def sites(self) -> Sites:
        """Attention sites by name."""
        return Sites(attention_sites(self.model))

    def head_scorer(self, dataset: Path, split: str, _progress: Progress) -> "TranslationHeadScorer":
        """Judge heads on a split of a dataset of pairs. Raises: BioattnError for one that does not fit."""
        from bioattn.models.translation.head_scorer import TranslationHeadScorer

        return TranslationHeadScorer(self, dataset, split)

    def check_probe(
        self, inputs: Path, settings: "CheckSettings", _evidence: "Evidence"
    ) -> "TranslationProbe":
        """Pairs to check the attention with. Raises: BioattnError for a dataset that does not fit."""
        from bioattn.models.translation.inference.probe import make_probe

        return make_probe(self, inputs, settings)


def load_translator(folder: Path, device: torch.device) -> LoadedTranslator:
    """Load a model folder. Raises: as `load_model`."""
    model, sha256 = load_model(folder, LoadedTranslator.family, TranslationModelConfig, Translator, device)
    return LoadedTranslator(model=model, device=device, sha256=sha256, path=folder)
