"""`bioattn explain motifs`: does a model look at known motifs in the conditions in which they should answer?"""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.choices import parse_heads
from bioattn.interpret.choices import MatchBy
from bioattn_cli.choice_options import AveragedHeadsOption, AveragedSitesOption, GenesOption
from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import OutputOption, SeedOption
from bioattn_cli.reporting import Reporter


@command("explain motifs")
def motifs(
    reporter: Reporter,
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT",
            help="Attention and attribution HDF5 over the same promoters; several of a kind are averaged.",
        ),
        Input(name="result_{}"),
    ],
    output: OutputOption,
    expected: Annotated[
        Path,
        typer.Option(
            metavar="TABLE", help="Columns factor, jaspar_id, consensus, condition_group and direction."
        ),
    ],
    motif_database: Annotated[
        Path | None,
        typer.Option("--motifs", metavar="FILE", help="MEME or JASPAR file with the matrices of jaspar_id."),
        Input(name="motifs"),
    ] = None,
    promoters: Annotated[
        Path | None,
        typer.Option(
            metavar="FASTA", help="Promoter FASTA of the results; attribution files hold the sequences."
        ),
    ] = None,
    treatment_groups: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Treatments (first column) and their `group`, whose mean is then the condition "
            "[default: every treatment is one].",
        ),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION:OTHER",
            help="Also score the pairs of CONDITION against OTHER; can be repeated.",
        ),
    ] = None,
    genes: GenesOption = None,
    sites: AveragedSitesOption = None,
    heads: AveragedHeadsOption = None,
    match: Annotated[
        MatchBy,
        typer.Option(help="Find motifs by consensus, or by matrix; the other where a row lacks one."),
    ] = MatchBy.CONSENSUS,
    shuffles: Annotated[
        int, typer.Option(min=20, help="Shuffled motifs of equal information to compare each with.")
    ] = 100,
    p_value: Annotated[
        float, typer.Option(help="Largest p-value of a matrix match, per base and strand.")
    ] = 1e-4,
    seed: SeedOption = 0,
) -> Record:
    """Score attention and attribution at known motifs, by condition.

    For each pair of the table the command compares the signal at the motif's sites with windows matched by
    position and G+C, and with shuffled motifs of equal information, of which at most 5 % may do as well.
    Attribution must have the expected direction; attention, which has no sign, must exceed the background. A pair
    of direction `none` passes without a signal. docs/known-motifs.md explains the columns.

    bioattn explain motifs attention.h5 explain.h5 -o motifs.tsv --expected expected.tsv --motifs JASPAR.meme
    """
    from bioattn.errors import SettingsError
    from bioattn.interpret.known_motifs.scoring import (
        KnownMotifSettings,
        score_known_motifs,
        write_known_motifs,
    )
    from bioattn.text import counted, percentage

    if not 0 < p_value <= 1:
        raise SettingsError(f"--p-value {p_value:g}: a p-value is above 0 and at most 1")
    settings = KnownMotifSettings(
        contrasts=tuple(contrast or ()),
        genes=tuple(genes or ()),
        sites=tuple(sites or ("*",)),
        heads=parse_heads(heads),
        match_by=match,
        num_shuffled=shuffles,
        p_value=p_value,
        seed=seed,
    )
    found = score_known_motifs(
        results,
        expected,
        motifs=motif_database,
        promoters=promoters,
        treatment_groups=treatment_groups,
        settings=settings,
        progress=reporter.progress(),
    )
    write_known_motifs(output, found.table)
    summaries = found.summaries()
    return Record(
        *(
            f"{each.signal}: {each.expected_passed} of {counted(each.expected, 'expected pair')} found, "
            f"{each.specific} of them also against the mean of all treatments; {each.none_passed} of {each.none} "
            f"that should be silent are; {percentage(each.shuffled_passing, 1)} of shuffled motifs pass"
            for each in summaries
        ),
        f"wrote {output}: {counted(len(found.table), 'row')} over {counted(found.promoters, 'promoter')}",
        promoters=found.promoters,
        missing_conditions=found.missing_conditions,
        signals=[each.as_figures() for each in summaries],
    )
