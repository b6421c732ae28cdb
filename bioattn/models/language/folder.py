"""A language model as a folder of documented files, and a trained or published one ready to run."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError
from bioattn.io.config_file import build
from bioattn.io.files import read_json, sha256_of, write_json
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.language.adapters import base_digest
from bioattn.models.language.config import FineTuned, LanguageModelConfig, Output
from bioattn.models.language.model import LanguageModel, attention_sites
from bioattn.models.language.published.architectures import ARCHITECTURES
from bioattn.models.language.published.reading import published_type, read_published_model
from bioattn.models.model_folder import (
    LoadedModel,
    check_sizes,
    load_weights,
    read_model_config,
    write_model_config,
    write_weights,
)
from bioattn.promoters.dataset import SPLIT_NAMES
from bioattn.sequences.sequence_dataset import SequenceDataset, open_sequence_dataset
from bioattn.sequences.vocabulary import SPECIAL, PublishedTokens, Vocabulary
from bioattn.system.progress import Progress

if TYPE_CHECKING:
    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.models.language.encoder import LanguageEncoder
    from bioattn.models.language.head_scorer import LanguageHeadScorer
    from bioattn.models.language.inference.probe import LanguageProbe

VOCABULARY = "vocabulary.json"
"""Of models with a published vocabulary."""
MODEL_TYPE = "language"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLanguageModel(LoadedModel[LanguageModel, LanguageModelConfig]):
    """A language model ready to run."""

    family: ClassVar[str] = MODEL_TYPE

    @property
    def vocabulary(self) -> Vocabulary:
        return self.model.vocabulary

    @property
    def sites(self) -> dict[str, AttentionSite]:
        return attention_sites(self.model)

    def head_scorer(self, dataset: Path, split: str, _progress: Progress) -> "LanguageHeadScorer":
        """Judge heads on a split of a sequence dataset. Raises: BioattnError for one that does not fit."""
        from bioattn.models.language.head_scorer import LanguageHeadScorer

        self._require_output()
        return LanguageHeadScorer(self, self.dataset(dataset), SPLIT_NAMES.index(split))

    def check_probe(self, inputs: Path, settings: "CheckSettings", _evidence: "Evidence") -> "LanguageProbe":
        """Windows to check the attention with. Raises: BioattnError for sequences that do not fit."""
        from bioattn.models.language.inference.probe import make_probe

        self._require_output()
        return make_probe(self, inputs, settings)

    def encoder(self) -> "LanguageEncoder":
        from bioattn.models.language.encoder import LanguageEncoder

        return LanguageEncoder(self.model)

    def _require_output(self) -> None:
        if self.config.form.output is Output.NONE:
            raise BioattnError(
                "the model gives no probabilities of tokens, by which its attention could be judged"
            )

    def dataset(self, path: Path) -> SequenceDataset:
        """A dataset, its letters read as the tokens of this model. Raises: BioattnError for another alphabet."""
        found, own = open_sequence_dataset(path), self.vocabulary
        if found.vocabulary.alphabet is not own.alphabet or (
            own.published is None and own != found.vocabulary
        ):
            raise BioattnError(
                f"{path}: holds {found.vocabulary.alphabet} in words of {found.vocabulary.word}; the model reads "
                f"{own.alphabet} in words of {own.word}"
            )
        return replace(found, vocabulary=own)


def write_language_model(folder: Path, model: LanguageModel) -> None:
    """Write weights, `config.json` and a published vocabulary into the existing `folder`."""
    write_weights(folder, model)
    if model.vocabulary.published is not None:
        write_json(folder / VOCABULARY, asdict(model.vocabulary.published))
    added = {}
    if model.readout is not None:
        fine_tuned = model.readout.fine_tuned
        if fine_tuned.lora:
            fine_tuned = replace(fine_tuned, base_sha256=base_digest(model))
        added["fine_tuned"] = asdict(fine_tuned)
    write_model_config(folder, MODEL_TYPE, architecture=model.config.to_json(), **added)


def load_language_model(folder: Path, device: torch.device) -> LoadedLanguageModel:
    """Load a folder that `write_language_model` wrote, or a published one (`published.reading`).

    Raises: FormatError naming the file that is missing, of another version or kind, or damaged; BioattnError when
    there is none.
    """
    if (folder / CONFIG).is_file():
        content = read_json(folder / CONFIG)
        if isinstance(content, dict) and "format" not in content and published_type(content) is None:
            raise FormatError(
                f"{folder / CONFIG}: a model of type {content.get('model_type')!r}; read are folders of bioattn, "
                f"and of transformers those of type {', '.join(ARCHITECTURES)}"
            )
        if isinstance(content, dict) and published_type(content) is not None:
            model, sha256 = read_published_model(folder)
            return LoadedLanguageModel(
                model=model.to(device).eval(), device=device, sha256=sha256, path=folder
            )
    content = read_model_config(folder, MODEL_TYPE)
    try:
        config = build(LanguageModelConfig, content["architecture"], str(folder / CONFIG))
    except KeyError as error:
        raise FormatError(f"{folder / CONFIG}: is incomplete ({error!r})") from error
    vocabulary = _vocabulary(folder, config)
    fine_tuned = None
    if "fine_tuned" in content:
        fine_tuned = build(FineTuned, content["fine_tuned"], str(folder / CONFIG))
    check_sizes(lambda: LanguageModel(config, vocabulary, fine_tuned), config.to_json(), folder / WEIGHTS)
    model = LanguageModel(config, vocabulary, fine_tuned)
    load_weights(model, folder / WEIGHTS)
    if fine_tuned is not None and fine_tuned.lora and base_digest(model) != fine_tuned.base_sha256:
        raise FormatError(
            f"{folder / WEIGHTS}: the low-rank adapters were trained on other weights than those beside them "
            f"(base_sha256 in {CONFIG}); use the folder as `bioattn train language --lora` wrote it"
        )
    return LoadedLanguageModel(
        model=model.to(device).eval(), device=device, sha256=sha256_of(folder / WEIGHTS), path=folder
    )


def _vocabulary(folder: Path, config: LanguageModelConfig) -> Vocabulary | None:
    path = folder / VOCABULARY
    if not path.is_file():
        return None
    published = build(PublishedTokens, read_json(path), str(path))
    numbers = [*published.special, *published.sentinels]
    if len(published.special) != len(SPECIAL) or not all(
        number is None or 0 <= number < len(published.tokens) for number in numbers
    ):
        raise FormatError(
            f"{path}: names a special token that is not there; the file is damaged or was edited"
        )
    return Vocabulary(config.alphabet, config.kmer, published)
