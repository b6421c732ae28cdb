"""`bioattn prepare contacts`: alignments and the structures of their columns, as a dataset to train on."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.structures.choices import MissingCb
from bioattn_cli.command import Output, Record, command
from bioattn_cli.options import ResultOption, SeedOption
from bioattn_cli.reporting import Reporter


@command("prepare contacts")
def contacts(
    reporter: Reporter,
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS",
            help="TSV/CSV with the columns id, msa, structure, and optionally chain, mapping, group, split.",
        ),
    ],
    output: ResultOption,
    max_depth: Annotated[
        int | None,
        typer.Option(help="Keep at most N rows of an alignment: the first and a random choice of others."),
    ] = None,
    min_structure_identity: Annotated[
        float, typer.Option(help="Least fraction of a chain's residues that equal those of its closest row.")
    ] = 0.7,
    missing_cb: Annotated[
        MissingCb,
        typer.Option(
            help="Substitute for a missing CB: CA, or its ideal position from N, CA and C (virtual)."
        ),
    ] = MissingCb.CA,
    mappings: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write DIR/ID.tsv: the residue of each column."),
        Output.OTHER,
    ] = None,
    seed: SeedOption = 0,
) -> Record:
    """Join alignments and structures into a dataset of contacts for training.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every pair kept or refused, and why. File names in PAIRS
    are relative to its folder; chain is the author's (`_` = blank). Alignments: every format that `prepare msa`
    reads; structures: PDB and mmCIF; all plain, gzip or xz.

    A chain is aligned to the first row or, if that is another protein, to the closest one. A pair that cannot be
    used is left out with a warning. Without a group column, chains related by sequence form groups.
    """
    from bioattn.alignments.contact_dataset import SPLIT_NAMES
    from bioattn.alignments.contact_preparation import ContactSettings, prepare_contacts
    from bioattn.io.audit import audit_path

    settings = ContactSettings(
        max_depth=max_depth,
        min_identity=min_structure_identity,
        missing_cb=missing_cb,
        seed=seed,
    )
    rows = prepare_contacts(pairs, output, settings, mappings=mappings, progress=reporter.progress())
    return Record(
        f"wrote {output} and {audit_path(output)}",
        kept=sum(row.status == "kept" for row in rows),
        refused=sum(row.status == "refused" for row in rows),
        splits={
            name: sum(row.status == "kept" and row.split == name for row in rows) for name in SPLIT_NAMES
        },
    )
