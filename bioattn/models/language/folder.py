"""A language model as a folder of documented files, and a trained or published one ready to run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.choices import chosen
from bioattn.errors import BioattnError, FormatError
from bioattn.inference.inputs import Inputs, python_call
from bioattn.io.files import read_json, sha256_of, write_json
from bioattn.io.settings import build
from bioattn.models.attention_settings import AttentionKeywords, ExportAttention, attention_options
from bioattn.models.family import CONFIG, WEIGHTS, method
from bioattn.models.language.config import (
    PUBLISHED,
    FineTuned,
    LanguageModelConfig,
    Output,
    Pool,
    Score,
    Shape,
    published_type,
)
from bioattn.models.language.family import LanguageGeneration
from bioattn.models.language.layers import is_word
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.published_reading import (
    ADAPTER_SETTINGS,
    FILES,
    adapter_settings,
    read_published_model,
)
from bioattn.models.language.scoring import Wanted, contacts, layer_numbers
from bioattn.models.language.tables import (
    NO_OUTPUT,
    read_source,
    results,
    table_header,
    variant_table,
    warn_of_missing,
)
from bioattn.models.model_folder import CheckedModel, load_network, read_model_config, write_model
from bioattn.sequences.vocabulary import MASK, PublishedTokens, Vocabulary
from bioattn.store.reader import Attention

if TYPE_CHECKING:
    import pandas as pd

VOCABULARY = "vocabulary.json"
"""Of models with a published vocabulary."""
MODEL_TYPE = "language"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedLanguageModel(CheckedModel[LanguageModel, LanguageModelConfig]):
    """A language model: how likely sequences are, what it predicts of them, and where it looks.

    `inputs` of its methods are those of `bioattn.inference.inputs`: the path of a FASTA file, a sequence,
    sequences by name, a list or a table, of DNA also codes and one-hot arrays. window: most tokens read at once;
    None = the model's context; longer sequences are read in windows that overlap by half.
    """

    family: ClassVar[str] = MODEL_TYPE

    def require_mask(self) -> None:
        """Raises: BioattnError for a model whose vocabulary has no token in the place of masked words."""
        published = self.vocabulary.published
        if published is not None and published.special[MASK] is None:
            raise BioattnError(
                f"{self.path}: its vocabulary has no token for masked words (mask_token); give --score one-pass"
            )

    def predict(self, inputs: Inputs, *, score: str = "masked", window: int | None = None) -> "pd.DataFrame":
        """Score sequences, or predict of them what the model was fine-tuned on: the table of `run language`.

        Likelihoods: words, log_likelihood (natural logarithm), bits_per_word, perplexity; NaN where no word could
        be asked for. A decoder gives each word the probability given those before it; an encoder masks each in
        turn, or with score `one-pass` reads all at once.

        Raises: FormatError for sequences that the model cannot read; SettingsError for a window that it cannot
        have.
        """
        import pandas as pd

        wanted = Wanted(score=chosen(Score, "score", score))
        with python_call(ExportAttention, window=window):
            source, most = read_source(self, inputs, window)
            rows = [row for found in results(self, source, wanted, most) for row in found.rows]
            warn_of_missing(self, source.path, [str(row[0]) for row in rows if None in row], wanted.score)
            return pd.DataFrame(rows, columns=table_header(self, wanted.score)).set_index("id")

    def score_variants(
        self,
        inputs: Inputs,
        variants: "Path | str | pd.DataFrame | Sequence[str]",
        *,
        score: str = "masked",
        window: int | None = None,
    ) -> "pd.DataFrame":
        """Score substitutions: ln of how much likelier a mutant is than the sequence.

        variants: a table with the columns sequence and mutant, such as H24C or p.His24Cys, or its path; of one
        sequence a list of mutants. The result has the table's index. score: whether an encoder reads the sequence
        with the words that differ masked, or as it is (`one-pass`). Raises: as `predict`; FormatError for mutants
        of other sequences.
        """
        import pandas as pd

        how = chosen(Score, "score", score)
        with python_call(ExportAttention, window=window):
            source, most = read_source(self, inputs, window)
            given = Path(variants) if isinstance(variants, str) else variants
            header, scored, _ = variant_table(self, inputs, source, most, given, how)
            rows = list(scored)
            missing = [f"{row[0]} {row[1]}" for row in rows if None in row]
            warn_of_missing(self, given if isinstance(given, Path) else "variants", missing, how)
            index = variants.index if isinstance(variants, pd.DataFrame) else None
            return pd.DataFrame(rows, columns=header, index=index).astype({"score": float})

    def embed(
        self,
        inputs: Inputs,
        *,
        pool: str = "mean",
        per_token: bool = False,
        layers: int | Sequence[int] = -1,
        window: int | None = None,
    ) -> "pd.DataFrame":
        """Return embeddings: a row per sequence, a column per channel.

        pool: `mean` over words, or `cls`. per_token: a row per word instead, numbered from 1. layers: 0 for what
        goes into the first, -1 for the last; of several the columns are (layer, channel).

        Raises: as `predict`; SettingsError for a layer that is not there.
        """
        from bioattn.models.language.file_kinds import embedding_table

        layers = (layers,) if isinstance(layers, int) else tuple(layers)
        wanted = Wanted(layers=layers, pool=None if per_token else chosen(Pool, "pool", pool))
        with python_call(ExportAttention, window=window):
            source, most = read_source(self, inputs, window)
            found = [each.embeddings for each in results(self, source, wanted, most)]
        values = np.concatenate([each for each in found if each is not None])
        words = [int(np.count_nonzero(is_word(tokens))) for tokens in source.items] if per_token else None
        return embedding_table(source.samples.ids, values, layer_numbers(layers, self), words)

    def contacts(self, inputs: Inputs) -> dict[str, NDArray[np.float32]]:
        """Return by name the probabilities (R, R) that residues of a protein touch, by the regression on attention
        that ESM-2's weights hold (Rao et al. 2021).

        Raises: as `predict`; BioattnError for a model without one.
        """
        with python_call():
            source, most = read_source(self, inputs, None)
            named = zip(source.samples.ids, source.items, strict=True)
            return {name: contacts(self, tokens, name, most) for name, tokens in named}

    def attention(
        self,
        inputs: Inputs,
        *,
        window: int | None = None,
        batch_size: int | None = None,
        **choices: Unpack[AttentionKeywords],
    ) -> Attention:
        """Return the attention that `<cls>`, the words and `<eos>` of each sequence pay each other, in memory.

        Of a sequence longer than the window each window is a sample. batch_size: sequences per forward pass;
        None = as memory allows. choices: what is kept, as `AttentionKeywords` has them: sites, heads, dtype,
        reduce, top_k, value_weighted.

        Raises: as `predict`; BioattnError for sites or heads that the model lacks.
        """
        from bioattn.models.language.attention import attention_work

        options = attention_options(**choices)
        with python_call(ExportAttention, window=window, batch_size=batch_size):
            work, layout = attention_work(self, inputs, options, window=window, batch_size=batch_size)
            return Attention(work.collect(layout))

    def generate(
        self,
        number: int = 10,
        *,
        prompt: str = "",
        examples: Inputs | None = None,
        length: int | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[str]:
        """Draw new sequences from a decoder, token by token, which begin with `prompt`.

        examples: sequences that are read before each. length: most tokens of one; None = what the model reads at
        once. temperature: 0 for the likeliest token each time. top_p: draw from the likeliest tokens that hold
        this much probability.

        Raises: BioattnError for a model that is no decoder; SettingsError for what does not fit it.
        """
        from bioattn.models.language.generation import drawn_sequences

        with python_call(
            LanguageGeneration, number=number, max_length=length, temperature=temperature, seed=seed
        ):
            return list(
                drawn_sequences(
                    self,
                    number,
                    prompt=prompt,
                    examples=examples,
                    length=length,
                    temperature=temperature,
                    top_p=top_p,
                    seed=seed,
                )
            )

    def write(self, folder: Path) -> None:
        """Write weights, `config.json` and a published vocabulary into the existing `folder`."""
        write_language_model(folder, self.model)

    @property
    def vocabulary(self) -> Vocabulary:
        return self.model.vocabulary

    head_scorer = method("language.checks", "LanguageHeadScorer")
    check_probe = method("language.checks", "make_probe")
    encoder = method("language.encoder", "encoder_of")

    def require_output(self) -> None:
        """Raises: BioattnError where the model predicts no tokens."""
        if self.config.shape is Shape.ENCODER:
            self.require_mask()
        if self.config.form.output is Output.NONE:
            raise BioattnError(f"{self.path}: {NO_OUTPUT}, so that it predicts no tokens")


def write_language_model(folder: Path, model: LanguageModel) -> None:
    """Write weights, `config.json` and a published vocabulary into the existing `folder`."""
    if model.vocabulary.published is not None:
        write_json(folder / VOCABULARY, asdict(model.vocabulary.published))
    added: dict[str, Any] = {}
    if model.readout is not None:
        added["fine_tuned"] = asdict(model.readout.fine_tuned)
    write_model(folder, MODEL_TYPE, model, architecture=model.config.to_json(), **added)


def load_language_model(
    folder: Path, device: torch.device, dtype: torch.dtype = torch.float32
) -> LoadedLanguageModel:
    """Load a folder that `write_language_model` wrote, or a published one (`published_reading`).

    dtype: of the weights on the device, to which they go one by one.
    """
    content = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else None
    weights = any((folder / name).is_file() for name in FILES)
    if not weights and (folder / ADAPTER_SETTINGS).is_file():
        base = adapter_settings(folder).get("base_model_name_or_path")
        raise FormatError(
            f"{folder}: holds low-rank adapters alone; copy them into the folder of the model that they were "
            f"trained on ({base})"
        )
    if isinstance(content, dict) and published_type(content) is not None:
        model, sha256 = read_published_model(folder, device, dtype)
        return LoadedLanguageModel(model=model.eval(), device=device, sha256=sha256, path=folder)
    if folder.suffix == ".pth" or any(folder.glob("data/weights/esmc*.pth")):
        raise FormatError(
            f"{folder}: holds ESM C in the form of EvolutionaryScale's own code; give the folder of transformers, "
            "such as biohub/ESMC-300M"
        )
    if isinstance(content, dict) and "format" not in content:
        raise FormatError(
            f"{folder / CONFIG}: a model of type {content.get('model_type')!r}; read are folders of bioattn, and "
            f"of transformers those of type {', '.join(PUBLISHED)}"
        )
    content = read_model_config(folder, MODEL_TYPE)
    try:
        config = build(LanguageModelConfig, content["architecture"], str(folder / CONFIG))
    except KeyError as error:
        raise FormatError(f"{folder / CONFIG}: is incomplete ({error!r})") from error
    vocabulary = fine_tuned = None
    if (path := folder / VOCABULARY).is_file():
        published = build(PublishedTokens, read_json(path), str(path))
        vocabulary = Vocabulary(config.alphabet, config.kmer, published)
    if "fine_tuned" in content:
        fine_tuned = build(FineTuned, content["fine_tuned"], str(folder / CONFIG))
    model = load_network(
        lambda: LanguageModel(config, vocabulary, fine_tuned), config.to_json(), folder / WEIGHTS, device
    )
    return LoadedLanguageModel(
        model=model.to(dtype).eval(), device=device, sha256=sha256_of(folder / WEIGHTS), path=folder
    )
