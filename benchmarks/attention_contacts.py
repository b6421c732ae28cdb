"""Contacts from row attention beside those of the distogram head, on families held out; as Markdown.

    python benchmarks/attention_contacts.py MODEL DATASET -o attention.h5

MODEL is a folder of `bioattn train evoformer`; DATASET a contact dataset whose training split the model may have
learned from and whose other families it must not have seen. Row attention of every family goes into attention.h5
(mean over rows); a regression over heads is fitted on the training split (`bioattn export contacts --fit`). L is
the number of columns with a residue in the structure; pairs at least 6 columns apart; contact = CB-CB below 8 Å.
"""

import argparse
import sys
from pathlib import Path

import torch

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import TRAIN, open_contact_dataset
from bioattn.attention.capture import capture
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.folders import AttentionWriter
from bioattn.interpret.contacts.attention_contacts import fit_contacts, mean_map, predict_contacts
from bioattn.io.files import sha256_of
from bioattn.models.evoformer.folder import LoadedEvoformerModel, load_evoformer_model
from bioattn.models.evoformer.inference.attention import AlignmentSample, alignment_layout
from bioattn.models.evoformer.inputs import AlignmentInputs
from bioattn.models.evoformer.training.evaluation import score_family
from bioattn.models.evoformer.training.samples import TrainingFamily
from bioattn.store.choices import Reduction
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from bioattn.store.writer import result_file
from bioattn.structures.contacts import ContactScores, contact_scores, mean_scores


def inputs_of(loaded: LoadedEvoformerModel, family: TrainingFamily) -> AlignmentInputs:
    """The family as the model wants it."""
    return AlignmentInputs(
        encoded=family.protein.encoded(),
        columns=family.columns,
        settings=loaded.inputs,
        weights=family.weights if loaded.inputs.weighted_rows else None,
        pair_feat=family.covariance if loaded.config.pair_features else None,
    )


def write_attention(
    loaded: LoadedEvoformerModel, families: list[TrainingFamily], path: Path, digest: str
) -> None:
    """Row attention of the first draw of every family."""
    samples = []
    for family in families:
        inputs = inputs_of(loaded, family)
        samples.append(
            AlignmentSample(
                id=family.protein.id,
                query=letters_of(family.protein.aatype[family.columns]),
                rows=inputs.num_clusters,
                extra_rows=inputs.num_extra,
                input_sha256=digest,
                columns=tuple(family.columns.tolist()),
                alignment_columns=family.protein.num_columns,
            )
        )
    options = AttentionOptions(sites=("evoformer.*.msa_row",), reduce=Reduction.MEAN_ROWS)
    sites = [loaded.sites[name] for name in choose_sites(loaded.sites, options.sites)]
    layout = alignment_layout(sites, options, loaded.sha256)
    with result_file(path, layout, len(samples), force=True) as file:
        writer = AttentionWriter(path, file, layout, loaded.sites)
        for family, sample in zip(families, samples, strict=True):
            drawn = inputs_of(loaded, family).sample(0, 0)
            with (
                writer.sample(sample.samples) as receiver,
                capture(writer.site_names, receiver),
                torch.no_grad(),
            ):
                loaded.model(drawn)
            print(f"{sample.id}: {len(sample.query)} columns, {sample.rows} rows", file=sys.stderr)


def row(name: str, scores: list[ContactScores]) -> str:
    """A line of the table."""
    mean = mean_scores(scores)
    return f"| {name} | {mean.precision_l5:.3f} | {mean.precision_l:.3f} |"


def main() -> None:
    """Write the attention file, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    loaded = load_evoformer_model(arguments.model, torch.device("cpu"))
    dataset = open_contact_dataset(arguments.dataset)
    families = [TrainingFamily(dataset.protein(index)) for index in range(len(dataset))]
    write_attention(loaded, families, arguments.output, sha256_of(arguments.dataset))
    regression, _ = fit_contacts(arguments.output, arguments.dataset)
    judged = [family for family in families if family.protein.split != TRAIN]
    if not judged:
        sys.exit("the dataset has no family outside its training split")
    with open_attention(arguments.output) as attention:
        fitted = [
            contact_scores(
                predict_contacts(attention, family.protein.id, regression), family.protein.cb, family.columns
            )
            for family in judged
        ]
        untaught = [
            contact_scores(mean_map(attention, family.protein.id), family.protein.cb, family.columns)
            for family in judged
        ]
    print(f"| {len(judged)} families held out | P@L/5 | P@L |")
    print("| --- | --- | --- |")
    print(row("distogram head", [score_family(loaded.model, family, loaded.inputs) for family in judged]))
    total = sum(len(heads) for heads in regression.weights.values())
    print(row(f"row attention, regression ({regression.num_heads_used} of {total} heads in use)", fitted))
    print(row("row attention, mean over heads", untaught))


if __name__ == "__main__":
    main()
