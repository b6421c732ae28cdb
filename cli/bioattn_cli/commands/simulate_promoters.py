"""`bioattn simulate promoters`: a genome whose promoters hold planted motifs, and responses that follow."""

from typing import Annotated

import typer

from bioattn.choices import Task
from bioattn.simulate.choices import Difficulty
from bioattn_cli.command import Record, command
from bioattn_cli.options import FolderOption, ForceOption, SeedOption
from bioattn_cli.reporting import Reporter


@command("simulate promoters")
def promoters(
    reporter: Reporter,
    output: FolderOption,
    genes: Annotated[int, typer.Option(min=1, help="Promoters.")] = 3000,
    treatments: Annotated[int, typer.Option(min=1, help="Treatments, each with its own motif.")] = 6,
    length: Annotated[
        int | None, typer.Option(min=1, help="Bases of a promoter [default: 400, hard 1000].")
    ] = None,
    difficulty: Annotated[
        Difficulty,
        typer.Option(
            help="standard: 8-bp motifs, 5 % substitutions, uniform background; hard: 1 kb, motifs sampled "
            "from matrices, order-2 background, half of the treatments need a pair of motifs, more noise."
        ),
    ] = Difficulty.STANDARD,
    task: Annotated[
        Task, typer.Option(help="Responses as log2 fold changes (0 or ±2, plus noise) or as 0 and 1.")
    ] = Task.REGRESSION,
    presence: Annotated[
        float, typer.Option(min=0, max=1, help="Chance that a promoter responds to a treatment.")
    ] = 0.5,
    decoys: Annotated[int, typer.Option(min=0, help="Motifs without effect, in every promoter.")] = 2,
    pairs: Annotated[
        int | None,
        typer.Option(min=0, help="Treatments that need two motifs [default: 0, hard half of them]."),
    ] = None,
    substitution_rate: Annotated[
        float, typer.Option(min=0, max=0.75, help="Chance of a substitution per base of a motif (standard).")
    ] = 0.05,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Standard deviation added to responses [default: 0.5, hard 1], or share of labels flipped "
            "[default: 0.02, hard 0.05].",
        ),
    ] = None,
    chromosomes: Annotated[int, typer.Option(min=1, help="Chromosomes.")] = 8,
    compress: Annotated[bool, typer.Option("--gzip", help="Compress the larger files.")] = False,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> Record:
    """Make a genome with planted motifs in promoters, and the responses that they cause.

    Writes genome.fa, annotation.gff3, responses.tsv, treatments.tsv, truth.tsv, motifs.meme and simulation.json
    into the folder OUTPUT; the same options and seed give the same bytes. The promoters are the LENGTH bases
    upstream of each gene: bioattn prepare promoters genome.fa annotation.gff3 --upstream LENGTH --downstream 0
    """
    from bioattn.io.folders import check_output_folder
    from bioattn.simulate.promoter_files import write_simulation
    from bioattn.simulate.promoters import simulate_promoters, simulation_settings
    from bioattn.text import counted

    check_output_folder(output, force=force)
    settings = simulation_settings(
        difficulty,
        genes=genes,
        treatments=treatments,
        length=length,
        task=task,
        presence=presence,
        decoys=decoys,
        pairs=pairs,
        substitution_rate=substitution_rate,
        noise=noise,
        chromosomes=chromosomes,
        seed=seed,
    )
    simulated = simulate_promoters(settings)
    written = write_simulation(output, simulated, compress=compress, force=force)
    return Record(
        f"wrote {output}: {counted(settings.genes, 'promoter')} of {settings.length:,} bp, "
        f"{counted(settings.treatments, 'treatment')} ({settings.pairs} need a pair of motifs), "
        f"{counted(len(simulated.sites), 'planted site')}",
        f"next: bioattn prepare promoters {written['genome.fa']} {written['annotation.gff3']} "
        f"--upstream {settings.length} --downstream 0 --flank 20 -o promoters.fa",
        outputs=[written["simulation.json"]],
    )
