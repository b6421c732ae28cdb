"""A promoter model with fewer attention heads, and its folder: only the weights of the other heads are removed.

The pruned model predicts what the whole model predicts with the other heads silenced (their part of the sum in the
output projection is 0; Michel, Levy & Neubig 2019). Heads keep their numbers: head 3 of the whole model is head 3
of the pruned model, in its attention files too.

Shape suffixes: H heads, D channels of a head, C model channels.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.errors import SettingsError
from bioattn.io.files import text_output
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import MODEL_CARD
from bioattn.models.promoter.family import TREATMENTS
from bioattn.models.promoter.folder import LoadedPromoterModel, write_promoter_model
from bioattn.models.promoter.head_scorer import PromoterHeadScorer
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.training.evaluation import card_lines, evaluate
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TEST, read_dataset
from bioattn.store.training_record import COMPARISON, HISTORY, read_training_record, write_training_record
from bioattn.system.progress import Progress
from bioattn.training.output_folder import publish, working_folder

ROWS_OF_HEADS = frozenset(
    {
        "project_query.weight",
        "project_query.bias",
        "project_key.weight",
        "project_value.weight",
        "project_value.bias",
    }
)
"""Arrays of `MultiHeadAttention` whose first axis is heads × channels of a head."""
COLUMNS_OF_HEADS = frozenset({"project_output.weight"})
"""Arrays whose second axis is heads × channels of a head."""
ONE_PER_HEAD = frozenset({"sink_key_HD", "score.weight_HD", "score.width_HD"})
"""Arrays whose first axis is heads."""


def pruned(
    model: PromoterModel, vocabulary: TreatmentVocabulary, keep: Mapping[str, Sequence[int]]
) -> PromoterModel:
    """Copy of `model` with only the heads `keep`, given by attention site; sites not named keep all heads.

    Raises: SettingsError for a site or head that the model does not have, or a site left without any.
    """
    sites = attention_sites(model)
    for name, heads in keep.items():
        if name not in sites:
            raise SettingsError(
                f"the model has no attention site {name!r}; it has {', '.join(sites) or 'none'}"
            )
        unknown = sorted(set(heads) - set(sites[name].heads))
        if unknown:
            raise SettingsError(
                f"site {name} has no head {unknown[0]}; it has {', '.join(map(str, sites[name].heads))}"
            )
        if not heads:
            raise SettingsError(f"site {name} would be left without any head; keep at least one")
    left = {name: tuple(sorted(set(keep.get(name, site.heads)))) for name, site in sites.items()}
    device = next(model.parameters()).device
    smaller = PromoterModel(replace(model.config, heads_left=tuple(left.values())), vocabulary)
    weights = dict(model.state_dict())
    for prefix, attention in _attentions(model).items():
        places = [attention.site.heads.index(head) for head in left[attention.site.name]]
        for name, tensor in attention.state_dict().items():
            weights[prefix + name] = _of_heads(name, tensor, places, attention.num_heads)
    smaller.load_state_dict(weights)
    return smaller.to(device).train(model.training)


def _attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    return {
        f"{name}.": module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)
    }


def _of_heads(name: str, tensor: Tensor, places: Sequence[int], num_heads: int) -> Tensor:
    """The part of an array of `MultiHeadAttention` that belongs to the heads at `places`."""
    index = torch.tensor(list(places), device=tensor.device)
    by_head: Tensor
    if name in ROWS_OF_HEADS:
        by_head = tensor.unflatten(0, (num_heads, -1))
        return by_head.index_select(0, index).flatten(0, 1)
    if name in COLUMNS_OF_HEADS:
        by_head = tensor.unflatten(1, (num_heads, -1))
        return by_head.index_select(1, index).flatten(1)
    return tensor.index_select(0, index) if name in ONE_PER_HEAD else tensor


def write_pruned(
    model: LoadedPromoterModel,
    output: Path,
    model_folder: Path,
    dataset_path: Path,
    keep: Mapping[str, Sequence[int]],
    note: Mapping[str, Any],
    *,
    force: bool,
    progress: Progress,
) -> tuple[float, float] | None:
    """Write the folder `output` of `model`, which lies in `model_folder`, with the heads `keep` alone.

    note: goes into the training record. Returns the accuracies of whole and pruned model on the dataset's test
    genes; None without any.
    """
    dataset = read_dataset(dataset_path)
    smaller = pruned(model.model, model.vocabulary, keep).eval()
    record = read_training_record(model_folder)
    test = None
    if len(dataset.genes_in(TEST)):
        loaded = replace(model, model=smaller)
        test = (
            PromoterHeadScorer(model, dataset, TEST).figures().accuracy,
            PromoterHeadScorer(loaded, dataset, TEST).figures().accuracy,
        )
    with working_folder(output, resume=False, force=force) as partial:
        evaluation = evaluate(smaller, dataset, model.vocabulary, model.device, ())
        write_promoter_model(
            partial,
            smaller,
            model.vocabulary,
            model.treatments,
            task=model.task,
            reference=model.reference,
            downstream=model.downstream,
        )
        files = [WEIGHTS, CONFIG, TREATMENTS]
        if (model_folder / HISTORY).is_file():
            files.append(HISTORY)
            shutil.copyfile(model_folder / HISTORY, partial / HISTORY)
        record |= {
            "pruned": {"from": model.sha256, **note},
            "evaluation": evaluation.to_json(),
            COMPARISON: None,
        }
        write_training_record(partial, record, files)
        with text_output(partial / MODEL_CARD) as file:
            file.write("\n".join(card_lines(smaller.config, dataset, record, evaluation)) + "\n")
        publish(partial, output)
    return test
