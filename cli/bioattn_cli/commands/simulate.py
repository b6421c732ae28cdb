"""`bioattn simulate …`: inputs with known truth, and attention scored against it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from bioattn.errors import SettingsError
from bioattn.interpret.choices import FOLDER, ScoreAttention
from bioattn.io.files import write_json
from bioattn.io.folders import check_output_folder
from bioattn.io.settings import (
    CONFIG,
    FORCE,
    SEED,
    Settings,
    argument,
    option,
    table,
    with_config_file,
)
from bioattn.models.running import RunReport
from bioattn.sequences.choices import Alphabet
from bioattn.simulate.description import Difficulty, PromoterSimulation
from bioattn.text import counted
from bioattn_cli.command import command
from bioattn_cli.commands.families import settings_command
from bioattn_cli.reporting import Reporter


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatePromoters(Settings):
    """Make a genome with planted motifs in promoters, and the responses that they cause.

    Writes genome.fa, annotation.gff3, responses.tsv, treatments.tsv, truth.tsv, motifs.meme and simulation.json
    into the folder OUTPUT; the same options and seed give the same bytes. The promoters are the LENGTH bases
    upstream of each gene: bioattn prepare promoters genome.fa annotation.gff3 --upstream LENGTH --downstream 0

    Settings come from the defaults, then --config (table [simulation]; docs/formats/simulation.md has its keys),
    then the options here.
    """

    output: Path = FOLDER
    difficulty: Difficulty = option(
        "standard: 8-bp motifs, 5 % substitutions, uniform background; hard: 1 kb, motifs sampled "
        "from matrices, order-2 background, half of the treatments need a pair of motifs, more noise.",
        default=Difficulty.STANDARD,
    )
    simulation: Mapping[str, Any] = table(PromoterSimulation)
    config: tuple[Path, ...] = CONFIG
    force: bool = FORCE


def _simulate_promoters(given: SimulatePromoters, reporter: Reporter) -> RunReport:
    from bioattn.simulate.promoters import simulate_promoters, simulation_settings, write_simulation

    output = given.output
    check_output_folder(output, force=given.force)
    given = with_config_file(given)
    settings = simulation_settings(given.difficulty, source=given.source("simulation"), **given.simulation)
    simulated = simulate_promoters(settings)
    written = write_simulation(output, simulated, force=given.force)
    return RunReport(
        f"wrote {output}: {counted(settings.genes, 'promoter')} of {settings.length:,} bp, "
        f"{counted(settings.treatments, 'treatment')} ({settings.pairs} need a pair of motifs), "
        f"{counted(len(simulated.sites), 'planted site')}",
        f"next: bioattn prepare promoters {written['genome.fa']} {written['annotation.gff3']} "
        f"--upstream {settings.length} --downstream 0 --flank 20 -o promoters.fa",
    )


settings_command("simulate promoters", SimulatePromoters, _simulate_promoters)


def _range(flag: str, least: int, text: str) -> tuple[int, int]:
    """`50:110` → (50, 110), `50` → (50, 50). Raises: SettingsError for anything else."""
    low, _, high = text.partition(":")
    numbers = [int(number) if number.isdecimal() else 0 for number in (low, high or low)]
    if not least <= numbers[0] <= numbers[1]:
        raise SettingsError(f"{flag} {text}: write N or N:M, from {least}, such as {flag} 50:110")
    return numbers[0], numbers[1]


@command("simulate msa")
def msa(
    reporter: Reporter,
    output: Path = FOLDER,
    folds: tuple[Path, ...] = argument(
        "FOLD",
        "PDB or mmCIF files (FILE:CHAIN where there are several chains) whose contacts are planted; "
        "without any, folds are generated.",
        default=(),
        exists=False,
        recorded="fold{}",
    ),
    families: int = option("Families.", default=20, min=1),
    depths: tuple[int, int] = option(
        "Least and most sequences of a family, or one number for all [default: 300:1500].",
        "--depth",
        metavar="N:M",
        parse=partial(_range, "--depth", 2),
    ),
    lengths: tuple[int, int] = option(
        "Least and most residues of a generated fold [default: 50:110].",
        "--length",
        metavar="N:M",
        parse=partial(_range, "--length", 30),
    ),
    strength: float | None = option(
        "Scale of the couplings [default: drawn for each family, 0.45 to 1.05].", min=0
    ),
    seed: int = SEED,
    force: bool = FORCE,
) -> RunReport:
    """Make protein families with planted contacts: Potts models sampled along random trees.

    Writes PAIRS.tsv, msa/, structure/, contacts/ (the coupled pairs) and simulation.json into the folder OUTPUT;
    the same options and seed give the same bytes. bioattn prepare contacts OUTPUT/PAIRS.tsv makes a dataset.
    """
    from bioattn.simulate.families import FamilySimulation, read_folds, write_families

    simulation = FamilySimulation(
        families=families,
        folds=read_folds(folds),
        depths=depths or (300, 1500),
        lengths=lengths or (50, 110),
        strength=strength,
        seed=seed,
    )
    write_families(output, simulation, force=force, progress=reporter.progress)
    return RunReport(
        f"wrote {output}: {families:,} famil{'y' if families == 1 else 'ies'} with planted contacts",
        f"next: bioattn prepare contacts {output / 'PAIRS.tsv'} -o simulated.dataset.h5",
    )


@command("simulate language")
def language(
    reporter: Reporter,
    output: Path = FOLDER,
    sequences: int = option("Sequences.", default=20_000, min=1),
    alphabet: Alphabet = option("What the sequences are.", default=Alphabet.PROTEIN),
    length: int = option("Bases, codons or residues of a sequence.", default=24, min=4),
    motif: int = option("Longest motif, in bases, codons or residues.", default=11, min=2),
    copies: int = option("Most copies of the motif; the fewest are 2.", default=2, min=2),
    cue: int = option("Words that are nowhere but in the copies, and announce one.", default=1, min=1),
    seed: int = SEED,
    force: bool = FORCE,
) -> RunReport:
    """Make sequences in which a motif of each comes again, to see whether a model copies in context.

    Writes sequences.fa, truth.tsv and simulation.json into the folder OUTPUT; the same options and seed give the
    same bytes. All else is drawn at random, so that nothing but later copies can be predicted:
    bioattn prepare language OUTPUT/sequences.fa --alphabet protein --split record
    """
    from bioattn.simulate.language import RepeatSimulation, write_repeats

    simulation = RepeatSimulation(
        alphabet=alphabet, sequences=sequences, length=length, motif=motif, copies=copies, cue=cue, seed=seed
    )
    write_repeats(output, simulation, force=force)
    return RunReport(
        f"wrote {output}: {counted(sequences, 'sequence')} with a motif of up to {motif} words and its copies",
        f"next: bioattn prepare language {output / 'sequences.fa'} --alphabet {alphabet} --split record "
        "-o simulated.dataset.h5",
    )


def _score(given: ScoreAttention, reporter: Reporter) -> RunReport:
    from bioattn.interpret.localisation import localisation_text, plain, score_attention_and_predictions

    report, predictions = score_attention_and_predictions(given, reporter.progress)
    typer.echo(localisation_text(report, predictions, aligned=sys.stdout.isatty()), nl=False)
    if given.output is not None:
        scores = {"predictions": None if predictions is None else plain(predictions)}
        write_json(given.output, report.to_json() | scores)
    return RunReport()


settings_command("simulate score", ScoreAttention, _score)
