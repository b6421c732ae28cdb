"""A model folder of a promoter model that lost heads, with what that cost."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bioattn.io.files import text_output
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import MODEL_CARD
from bioattn.models.promoter.family import TREATMENTS
from bioattn.models.promoter.folder import LoadedPromoterModel, write_promoter_model
from bioattn.models.promoter.head_scorer import PromoterHeadScorer
from bioattn.models.promoter.pruning import pruned
from bioattn.models.promoter.training.evaluation import evaluate
from bioattn.models.promoter.training.model_card import card_lines
from bioattn.promoters.dataset import TEST, read_dataset
from bioattn.store.training_record import HISTORY, read_training_record, write_training_record
from bioattn.system.progress import Progress
from bioattn.training.output_folder import publish, working_folder


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
        evaluation = evaluate(
            smaller, dataset, model.vocabulary, model.device, baselines=False, progress=progress
        )
        write_promoter_model(
            partial, smaller, model.vocabulary, model.treatments, task=model.task, reference=model.reference
        )
        files = [WEIGHTS, CONFIG, TREATMENTS]
        if (model_folder / HISTORY).is_file():
            files.append(HISTORY)
            shutil.copyfile(model_folder / HISTORY, partial / HISTORY)
        record |= {
            "pruned": {"from": model.sha256, **note},
            "evaluation": evaluation.to_json(),
        }
        write_training_record(partial, record, files)
        with text_output(partial / MODEL_CARD) as file:
            file.write("\n".join(card_lines(smaller.config, dataset, record, evaluation)) + "\n")
        publish(partial, output)
    return test
