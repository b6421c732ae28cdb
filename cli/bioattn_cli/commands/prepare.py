"""`bioattn prepare …`: promoters, alignments, and datasets to train on."""

from dataclasses import replace
from pathlib import Path

from bioattn.alignments.choices import PrepareContacts, PrepareMsa, PrepareTemplates, SearchSettings
from bioattn.errors import SettingsError
from bioattn.io.records import audit_path
from bioattn.models.running import RunReport
from bioattn.promoters.choices import PrepareDataset, PreparePromoters
from bioattn_cli.commands.families import settings_command
from bioattn_cli.reporting import Reporter


def _promoters(given: PreparePromoters, reporter: Reporter) -> RunReport:
    from collections import Counter

    from bioattn.promoters.chromosomes import AUTO
    from bioattn.promoters.preparation import PromoterFiles, prepare_promoters

    rows = prepare_promoters(given, reporter.progress)
    files = PromoterFiles.beside(given.output)
    found = [files.aliases] if given.chromosome_aliases == AUTO else []
    inputs = {"operons": given.operons, "chromosome_aliases": given.chromosome_aliases}
    return RunReport(
        f"wrote {', '.join(map(str, (files.fasta, files.bed, *found)))} and {files.audit}",
        outputs=[files.fasta, files.bed, files.audit, *found],
        inputs={name: Path(text) for name, text in inputs.items() if text and Path(text).is_file()},
        genes=dict(Counter(row.status for row in rows)),
    )


def _dataset(given: PrepareDataset, _reporter: Reporter) -> RunReport:
    from bioattn.promoters.assemble import prepare_dataset
    from bioattn.promoters.responses import response_source

    # `--holdout test=IV validation=VII` leaves the second value among the files.
    loose = [
        text
        for text in given.responses
        if text.startswith(("test=", "validation=")) and not Path(text).exists()
    ]
    if loose:
        settings = replace(given.settings, holdouts=(*given.settings.holdouts, *loose))
        responses = tuple(text for text in given.responses if text not in loose)
        given = replace(given, settings=settings, responses=responses)
    made, audit = prepare_dataset(given), audit_path(given.output)
    sources = map(response_source, given.responses)
    return RunReport(
        f"wrote {given.output} and {audit}",
        outputs=[given.output, audit],
        inputs={f"responses.{number}": source.path for number, source in enumerate(sources, start=1)},
        genes=made.num_genes,
        treatments=made.num_treatments,
        leakage=made.metadata["leakage"],
    )


def _contacts(given: PrepareContacts, reporter: Reporter) -> RunReport:
    from bioattn.alignments.contact_preparation import prepare_contacts
    from bioattn.choices import SPLIT_NAMES

    rows, audit = prepare_contacts(given, reporter.progress), audit_path(given.output)
    kept = [row.split for row in rows if row.status == "kept"]
    return RunReport(
        f"wrote {given.output} and {audit}",
        outputs=[given.output, audit],
        kept=len(kept),
        refused=sum(row.status == "refused" for row in rows),
        splits={name: kept.count(name) for name in SPLIT_NAMES},
    )


def _templates(given: PrepareTemplates, _reporter: Reporter) -> RunReport:
    from bioattn.alignments.templates import prepare_templates

    made = prepare_templates(given)
    return RunReport(
        f"wrote {given.output}",
        templates=made.names,
        coverage=made.coverage.round(4).tolist(),
        identity=made.identity.round(4).tolist(),
    )


def _msa(given: PrepareMsa, reporter: Reporter) -> RunReport:
    from bioattn.alignments.preparation import prepare_msa

    if not given.databases and given.search != SearchSettings():
        flag = "--iterations" if given.search.iterations != 1 else "--max-evalue"
        raise SettingsError(f"{flag} is for --search, which names the database; give that too")
    statistics = prepare_msa(given, reporter.progress)
    written = [given.output, *filter(None, [given.stats])]
    return RunReport(
        f"wrote {' and '.join(map(str, written))}",
        outputs=written,
        inputs={"query" if given.databases else "alignment": given.alignment},
        rows=statistics.depth,
        columns=statistics.columns,
        neff=round(statistics.neff, 3),
        warnings=statistics.warnings(),
    )


settings_command("prepare promoters", PreparePromoters, _promoters)
settings_command("prepare dataset", PrepareDataset, _dataset)
settings_command("prepare contacts", PrepareContacts, _contacts)
settings_command("prepare templates", PrepareTemplates, _templates)
settings_command("prepare msa", PrepareMsa, _msa)
