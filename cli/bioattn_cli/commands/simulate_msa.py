"""`bioattn simulate msa`: alignments whose contacts are known because they were planted."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import FolderOption, ForceOption, SeedOption
from bioattn_cli.reporting import Reporter


@command("simulate msa")
def msa(
    reporter: Reporter,
    output: FolderOption,
    folds: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLD",
            help="PDB or mmCIF files (FILE:CHAIN where there are several chains) whose contacts are planted; "
            "without any, folds are generated.",
        ),
        Input(name="fold{}"),
    ] = None,
    families: Annotated[int, typer.Option(min=1, help="Families.")] = 20,
    min_depth: Annotated[int, typer.Option(min=2, help="Least sequences of a family.")] = 300,
    max_depth: Annotated[int, typer.Option(min=2, help="Most sequences of a family.")] = 1500,
    min_length: Annotated[int, typer.Option(min=30, help="Least residues of a generated fold.")] = 50,
    max_length: Annotated[int, typer.Option(min=30, help="Most residues of a generated fold.")] = 110,
    strength: Annotated[
        float | None,
        typer.Option(min=0, help="Scale of the couplings [default: drawn for each family, 0.45 to 1.05]."),
    ] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> Record:
    """Make protein families with planted contacts: Potts models sampled along random trees.

    Writes PAIRS.tsv, msa/, structure/, contacts/ (the coupled pairs) and simulation.json into the folder OUTPUT;
    the same options and seed give the same bytes. bioattn prepare contacts OUTPUT/PAIRS.tsv makes a dataset.
    """
    from bioattn.errors import SettingsError
    from bioattn.simulate.families import FamilySimulation, read_folds, write_families

    for low, high, what in ((min_depth, max_depth, "depth"), (min_length, max_length, "length")):
        if low > high:
            raise SettingsError(f"--min-{what} {low} is larger than --max-{what} {high}")
    simulation = FamilySimulation(
        families=families,
        folds=read_folds(folds or []),
        depths=(min_depth, max_depth),
        lengths=(min_length, max_length),
        strength=strength,
        seed=seed,
    )
    write_families(output, simulation, force=force, progress=reporter.progress())
    return Record(
        f"wrote {output}: {families:,} famil{'y' if families == 1 else 'ies'} with planted contacts",
        f"next: bioattn prepare contacts {output / 'PAIRS.tsv'} -o simulated.dataset.h5",
        outputs=[output / "PAIRS.tsv"],
    )
