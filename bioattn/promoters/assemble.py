"""Building a promoter dataset: promoters, responses, treatments and splits brought together, with an audit."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, TRAIN
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.io.files import atomic_output, check_output
from bioattn.io.records import audit_path, audit_text
from bioattn.promoters.choices import DatasetSettings, PrepareDataset, Split, Standardize
from bioattn.promoters.dataset import PromoterDataset, write_dataset
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.homology import read_proteins
from bioattn.promoters.promoter_fasta import Promoter, read_promoters
from bioattn.promoters.response_matrix import (
    BY_NAME,
    AuditRow,
    ResponseMatrix,
    against_control,
    apply_task,
    average_replicates,
    join_promoters,
    replicate_groups,
    sum_isoforms,
)
from bioattn.promoters.responses import (
    Responses,
    are_small_counts,
    is_counts,
    is_linear,
    log_counts,
    read_responses,
    replicates_of,
    response_source,
    without_replicate,
)
from bioattn.promoters.splits import GeneSplit, read_split_table, split_genes, split_treatments
from bioattn.promoters.treatments import TreatmentTable, named_treatments, read_treatment_table
from bioattn.text import counted, listed, percentage, quoted

LOGGER = logging.getLogger("bioattn")

NEARLY_EMPTY = 0.1
"""A promoter with bases in a smaller share of its window than this tells a model nothing."""
MOST_EMPTY = 0.1
"""Largest share of such promoters."""

FEW_MATCHES = 0.5
"""Below this share of response genes with a promoter the ids probably do not belong together."""


def prepare_dataset(given: PrepareDataset) -> PromoterDataset:
    """Read the files, build the dataset, write it and its audit beside it (`X.dataset.audit.tsv`)."""
    settings, output = given.settings, given.output
    sources = list(map(response_source, given.responses))
    of_genes = [holdout for holdout in settings.parsed_holdouts if holdout.key is None]
    if given.split_table is not None and (of_genes or set(settings.splits) - {Split.TREATMENT}):
        raise SettingsError(
            "--split-table names the side of every gene; leave --split and --holdout of genes out"
        )
    files = [given.promoters, *(source.path for source in sources)]
    files += filter(None, (given.treatment_table, given.proteins, given.split_table))
    check_output(output, files)
    check_output(audit_path(output), files)
    promoters = list(read_promoters(given.promoters))
    responses = read_responses(sources, given.columns, GeneNames.of(promoters))
    table = None if given.treatment_table is None else read_treatment_table(given.treatment_table)
    proteins = None if given.proteins is None else read_proteins(given.proteins)
    sides = None if given.split_table is None else read_split_table(given.split_table)
    dataset, audit = build_dataset(promoters, responses, table, settings, proteins, sides)
    with atomic_output(audit_path(output)) as temporary:
        temporary.write_text(audit_text(AuditRow._fields, audit), encoding="utf-8", newline="\n")
        write_dataset(output, dataset)
    return dataset


def build_dataset(
    promoters: Sequence[Promoter],
    responses: Responses,
    table: TreatmentTable | None,
    settings: DatasetSettings,
    proteins: Mapping[str, str] | None = None,
    sides: Mapping[str, int] | None = None,
) -> tuple[PromoterDataset, list[AuditRow]]:
    """Bring promoters, responses and treatments together: the dataset and its audit.

    Genes keep the order of the promoters, treatments that of the responses. `proteins` (by gene id) adds
    paralogues to what `homology` keeps together and to the leakage figures. `sides` (by gene id) is the split,
    where the user gives it. What is left out is logged and in the audit.

    Raises: BioattnError when genes or treatments do not match, nothing is left, or promoters differ in flanks;
    SettingsError when the settings do not fit the data.
    """
    if not promoters:
        raise BioattnError("there are no promoters")
    first, flank = promoters[0], promoters[0].flank
    other = next((p for p in promoters if p.flank != flank), None)
    if other is not None:
        raise BioattnError(
            f"promoters have different flanks: {first.gene_id!r} has {flank} bases, {other.gene_id!r} has "
            f"{other.flank}; make them in one run of `bioattn prepare promoters`"
        )
    control, replicates = settings.control, settings.replicate_column
    untested = responses.padj is None
    linear, raw = (untested and check(responses.values) for check in (is_linear, is_counts))
    if control is not None:
        if not linear and not are_small_counts(responses.values):
            raise BioattnError(
                "--control makes log2 ratios of counts, and the responses are none (0 or more, some of them "
                "large); leave it out"
            )
        responses = log_counts(sum_isoforms(GeneNames.of(promoters), responses))
    elif raw:
        raise BioattnError(
            f"the responses look like raw counts (whole numbers up to {np.nanmax(responses.values):,.0f}) of "
            f"{quoted(responses.treatments)}; give log2 fold changes of DESeq2 or edgeR or, for ratios of "
            "normalised counts, --control NAME (replicates: NAME_1, NAME_2, … or --replicate-column)"
        )
    elif linear:
        LOGGER.warning(
            f"the responses reach {np.nanmax(responses.values):,.0f} and none is below 0, as in TPM or normalised "
            "counts: give log2 fold changes of DESeq2 or edgeR or, for log2 ratios of these, --control NAME"
        )
    elif untested and settings.task == "regression" and are_small_counts(responses.values):
        LOGGER.warning(
            f"the responses are whole numbers from 0 to {np.nanmax(responses.values):g}, as counts of few reads: "
            "give log2 fold changes or, for log2 ratios of counts, --control NAME"
        )
    by_name = control is not None and replicates is None
    if control is None and replicates is None and (alike := replicates_of(responses.treatments)):
        LOGGER.warning(
            f"{sum(map(len, alike.values())):,} of {len(responses.treatments):,} treatments look like replicates: "
            + listed([f"{quoted(names, 3)} of {name!r}" for name, names in alike.items()], 2)
            + "; each is learned as a treatment of its own: give --treatment-table with a column that names them "
            "alike, and --replicate-column, to average them"
        )
    features, unused = _treatments_of(responses.treatments, None if by_name else table)
    matrix, rejected, notes = join_promoters(GeneNames.of(promoters), responses, features)
    _report_matches(promoters, responses, rejected, notes)
    samples: list[AuditRow] = []
    if by_name or replicates is not None:
        groups = (
            without_replicate(features.names)
            if replicates is None
            else replicate_groups(features, replicates)
        )
        matrix, samples, differing = average_replicates(matrix, groups)
        members = _grouped((sample.detail, sample.name) for sample in samples)
        LOGGER.info(
            f"{len(samples):,} samples averaged into {len(members):,} treatments: "
            + listed([f"{treatment!r} from {quoted(names)}" for treatment, names in members.items()], 3)
        )
        for column, merged in differing.items():
            LOGGER.warning(
                f"--replicate-column {replicates} merges samples that differ in {column!r}, "
                f"which is left out: {listed(merged, 3)}"
            )
    if control is not None:
        matrix = against_control(matrix, control)
        if by_name:
            features, unused = _treatments_of(matrix.treatments.names, table)
            matrix = replace(matrix, treatments=features)
    whole = apply_task(matrix, settings)
    gene_counts, treatment_counts = ((~np.isnan(whole.values)).sum(axis=axis) for axis in (1, 0))
    without = [p.gene_id for p, count in zip(promoters, gene_counts, strict=True) if not count]
    if without:
        LOGGER.warning(
            f"{len(without):,} of {len(promoters):,} promoters left out, no response: {quoted(without)}"
        )
    without = [
        name for name, count in zip(whole.treatments.names, treatment_counts, strict=True) if not count
    ]
    if without:
        LOGGER.warning(
            f"{counted(len(without), 'treatment')} left out, no value for any promoter: {quoted(without)}"
        )
    genes, treatments = np.flatnonzero(gene_counts), np.flatnonzero(treatment_counts)
    if not genes.size:
        raise BioattnError("no gene has a response: every value of the tables that has a promoter is missing")
    kept, labelled = [promoters[i] for i in genes.tolist()], whole.select(genes, treatments)
    codes = _padded(kept)
    split = split_genes(kept, codes, settings, proteins, sides)
    treatment_split = np.full(len(treatments), TRAIN, dtype=np.uint8)
    if Split.TREATMENT in settings.splits:
        treatment_split = split_treatments(
            labelled.treatments, [h for h in settings.parsed_holdouts if h.key is not None], settings.seed
        )
    training = np.flatnonzero(split.sides == TRAIN)
    names = labelled.treatments.names
    constant = _report_constant(labelled, training)
    targets, mean, sd = labelled.values, None, None
    if settings.standardize is Standardize.TREATMENT:
        values = targets[training]
        present = ~np.isnan(values)
        count = np.maximum(1, present.sum(axis=0))
        mean = np.where(present, values, 0.0).sum(axis=0) / count
        sd = np.sqrt((np.where(present, values - mean, 0.0) ** 2).sum(axis=0) / count)
        sd = np.where(sd > 0, sd, 1.0)
        targets = (targets - mean) / sd
    dataset = PromoterDataset(
        gene_ids=[p.gene_id for p in kept],
        chrom=[p.chrom for p in kept],
        start=np.array([p.start for p in kept], dtype=np.int64),
        end=np.array([p.end for p in kept], dtype=np.int64),
        strand=[p.strand for p in kept],
        codes=codes,
        flank=flank,
        targets=targets.astype(np.float32),
        treatments=labelled.treatments,
        gene_split=split.sides,
        treatment_split=treatment_split,
        task=settings.task,
        metadata=_metadata(kept, settings, split),
        target_mean=mean,
        target_sd=sd,
    )
    _report_sides(dataset)
    had_value: list[bool] = np.any(~np.isnan(matrix.values), axis=1).tolist()
    side_of = dict(zip(dataset.gene_ids, dataset.gene_split.tolist(), strict=True))
    audit = [
        AuditRow("gene", p.gene_id, "kept", note, SPLIT_NAMES[side_of[p.gene_id]], int(count))
        if count
        else AuditRow(
            "gene", p.gene_id, "dropped", "no value left by --max-padj" if had else "no response", "", 0
        )
        for p, count, had, note in zip(promoters, gene_counts, had_value, notes, strict=True)
    ]
    side_of = dict(zip(names, treatment_split.tolist(), strict=True))
    audit += rejected
    audit += [
        AuditRow("treatment", name, "kept", constant.get(name, ""), SPLIT_NAMES[side_of[name]], int(count))
        if count
        else AuditRow("treatment", name, "dropped", "no value", "", 0)
        for name, count in zip(whole.treatments.names, treatment_counts, strict=True)
    ]
    return dataset, [*audit, *samples, *unused]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Second entries by the first."""
    groups: dict[str, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def _treatments_of(
    names: Sequence[str], table: TreatmentTable | None
) -> tuple[TreatmentTable, list[AuditRow]]:
    """The rows of the treatment table for the treatments of the responses, and the rows without responses."""
    if table is None:
        return named_treatments(names), []
    known = set(table.names)
    missing = [name for name in names if name not in known]
    if missing:
        raise BioattnError(
            f"the treatment table has no row for {len(missing):,} of {len(names):,} treatments of "
            f"the responses: {quoted(missing)}; its rows are {quoted(table.names)}"
        )
    queried = set(names)
    unused = [name for name in table.names if name not in queried]
    if unused:
        LOGGER.warning(
            f"{counted(len(unused), 'row')} of the treatment table without responses: {quoted(unused)}"
        )
    return table.select(names), [AuditRow("table row", name, "unused", "no responses") for name in unused]


def _report_matches(
    promoters: Sequence[Promoter], responses: Responses, rejected: Sequence[AuditRow], notes: Sequence[str]
) -> None:
    for reason, names in _grouped((row.reason, row.name) for row in rejected).items():
        LOGGER.warning(f"{counted(len(names), 'gene')} of the responses left out, {reason}: {quoted(names)}")
    if len(rejected) > FEW_MATCHES * len(responses.gene_ids):
        LOGGER.warning(
            f"only {len(responses.gene_ids) - len(rejected):,} of {len(responses.gene_ids):,} response genes have "
            f"a promoter; promoters are named {quoted([p.gene_id for p in promoters], 3)}"
        )
    noted = _grouped((note, p.gene_id) for p, note in zip(promoters, notes, strict=True) if note)
    for note, names in noted.items():
        level = logging.INFO if note == BY_NAME else logging.WARNING
        LOGGER.log(level, f"{counted(len(names), 'gene')} {note}: {quoted(names)}")


def _padded(promoters: Sequence[Promoter]) -> NDArray[np.uint8]:
    """(promoters, longest): codes, shorter ones with N on the left so that the anchors stay in one column.

    Raises: BioattnError when more than `MOST_EMPTY` of the promoters are nearly all N, padding included.
    """
    longest = max(p.codes.size for p in promoters)
    codes = np.full((len(promoters), longest), UNKNOWN, dtype=np.uint8)
    for row, promoter in zip(codes, promoters, strict=True):
        row[longest - promoter.codes.size :] = promoter.codes
    short = [p.gene_id for p in promoters if p.codes.size < longest]
    if short:
        LOGGER.warning(
            f"{len(short):,} of {len(promoters):,} promoters are shorter than {longest:,} bases and padded with N "
            f"upstream: {quoted(short)}"
        )
    nearly_empty = np.flatnonzero((codes < UNKNOWN).mean(axis=1) < NEARLY_EMPTY)
    if nearly_empty.size:
        sentence = (
            f"{nearly_empty.size:,} of {len(promoters):,} promoters have bases in less than "
            f"{percentage(NEARLY_EMPTY)} of the {longest:,} positions, the rest is N: "
            f"{quoted([promoters[row].gene_id for row in nearly_empty.tolist()])}"
        )
        if nearly_empty.size > MOST_EMPTY * len(promoters):
            raise BioattnError(
                f"{sentence}; more than {percentage(MOST_EMPTY)} is refused: prepare promoters with shorter "
                "windows, without --overlap trim, or leave these genes out of the promoter FASTA"
            )
        LOGGER.warning(sentence)
    return codes


def _report_constant(labelled: ResponseMatrix, training: NDArray[np.int64]) -> dict[str, str]:
    """What the audit says of treatments whose value is the same for all training genes; they are kept."""
    values = labelled.values[training]
    names = np.array(labelled.treatments.names, dtype=object)
    lowest = np.where(np.isnan(values), np.inf, values).min(axis=0, initial=np.inf)
    highest = np.where(np.isnan(values), -np.inf, values).max(axis=0, initial=-np.inf)
    constant = [str(name) for name in names[lowest >= highest]]
    if constant:
        LOGGER.warning(
            f"{counted(len(constant), 'treatment')} with one value (or none) for all training genes can teach "
            f"nothing: {quoted(constant)}"
        )
    return dict.fromkeys(constant, "constant over the training genes")


def _metadata(
    promoters: Sequence[Promoter],
    settings: DatasetSettings,
    split: GeneSplit,
) -> dict[str, Any]:
    downstream = {promoter.downstream for promoter in promoters}
    of_settings = ("task", "threshold", "direction", "max_padj", "replicate_column", "control", "standardize")
    return {
        **{name: getattr(settings, name) for name in of_settings},
        "split": split.description,
        "holdouts": list(map(str, settings.parsed_holdouts)),
        "seed": settings.seed,
        "leakage": [asdict(figure) for figure in split.leakage],
        "downstream": downstream.pop() if len(downstream) == 1 else None,
    }


def _report_sides(dataset: PromoterDataset) -> None:
    def counts(sides: NDArray[np.uint8]) -> str:
        return ", ".join(f"{int((sides == side).sum()):,} {name}" for side, name in enumerate(SPLIT_NAMES))

    missing = float(np.isnan(dataset.targets).mean())
    LOGGER.info(
        f"{counted(dataset.num_genes, 'gene')} ({counts(dataset.gene_split)}) × "
        f"{counted(dataset.num_treatments, 'treatment')} "
        f"({counts(dataset.treatment_split)}), {dataset.length:,} bases, "
        f"{percentage(missing, 1)} of the values missing"
    )
    if dataset.task == "binary":
        positive = float(np.nanmean(dataset.targets))
        LOGGER.info(f"{percentage(positive, 2)} of the values are 1")
        if positive in (0.0, 1.0):
            LOGGER.warning(
                f"every value is {positive:g}: choose another --threshold, --direction or --max-padj"
            )
