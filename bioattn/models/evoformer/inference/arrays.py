"""Alignments in memory, or of files, through an MSA/pair model: contacts as a table, attention as arrays."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bioattn.inference.alignment_inputs import Given, alignments_in
from bioattn.inference.attention_receiver import SampleReceiver
from bioattn.models.evoformer.inference.prediction import Prediction
from bioattn.models.evoformer.inference.prediction_validation import CONTACT_COLUMNS, contact_rows
from bioattn.models.evoformer.inference.runner import AlignmentRunner, PreparedAlignment, tell
from bioattn.store.contents import Collector
from bioattn.store.reader import Attention
from bioattn.store.schema import AttentionOptions
from bioattn.system.signals import StopRequest


def contacts(runner: AlignmentRunner, inputs: Any) -> pd.DataFrame:
    """The contacts of alignments as contacts.tsv has them; of several with their names in the index."""
    given, several = alignments_in(inputs)
    tables = {}
    for one, prepared, prediction in _predictions(runner, given):
        probabilities, distances = prediction.contact_probability, prediction.expected_distance
        assert probabilities is not None
        assert distances is not None
        target, columns = prepared.target, prepared.inputs.columns
        numbers = [target.numbers[column] for column in columns]
        rows = contact_rows(target.letters, columns, numbers, probabilities, distances)
        table = pd.DataFrame(list(rows), columns=list(CONTACT_COLUMNS))
        tables[one.source.name] = table.apply(_as_numbers)
    return pd.concat(tables) if several else next(iter(tables.values()))


def arrays(runner: AlignmentRunner, inputs: Any) -> dict[str, Prediction]:
    """All that a model says of alignments, by their names."""
    given, _ = alignments_in(inputs)
    return {one.source.name: prediction for one, _, prediction in _predictions(runner, given)}


def attention(runner: AlignmentRunner, inputs: Any, options: AttentionOptions) -> Attention:
    """The attention of the last pass over alignments."""
    given, _ = alignments_in(inputs)
    kept = Collector(runner.layout(options))
    for _ in _predictions(runner, given, kept):
        pass
    return Attention(kept.contents())


def _predictions(
    runner: AlignmentRunner, given: list[Given], kept: Collector | None = None
) -> Iterator[tuple[Given, PreparedAlignment, Prediction]]:
    """Predict one alignment after the other; attention goes to `kept`."""
    runner.check()
    for one in given:
        prepared = runner.prepared(*one)
        tell(one.source, prepared, predicts_atoms=runner.model.config.structure_module is not None)
        last = prepared.inputs.settings.num_recycles
        sample = prepared.sample_of_pass(one.source.name, runner.settings.seed, last)
        if kept is None:
            prediction = runner.compute(one.source, prepared, sample, StopRequest())
        else:
            groups = kept.layout.groups
            sites = [runner.sites[group.path.removeprefix("sites/")] for group in groups]
            with kept.sample(sample.samples) as held:
                receiver = SampleReceiver(held, sites, groups)
                names = [site.name for site in sites]
                prediction = runner.compute(one.source, prepared, sample, StopRequest(), receiver, names)
                receiver.require_complete()
        yield one, prepared, prediction


def _as_numbers(cells: pd.Series) -> pd.Series:
    """A column of text as numbers, where it holds no letters; empty cells are NaN."""
    if cells.str.fullmatch(r"[A-Z-]").any():
        return cells
    return pd.to_numeric(cells)


def templates_in(path: Path | str | None) -> Any:
    """A file of `prepare templates`, read; None for none."""
    from bioattn.structures.template_file import read_templates

    return None if path is None else read_templates(Path(path))
