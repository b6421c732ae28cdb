"""All checks of a model on the user's promoters, in order, the verdict, and the report as text."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.faithfulness.accuracy_checks import (
    NO_CONTROLS,
    NO_SKILL,
    check_recorded_skill,
    check_skill,
    compare_skills,
)
from bioattn.faithfulness.alignment_checks import check_alignments, judge_alignments
from bioattn.faithfulness.atom_checks import check_atoms, judge_atoms
from bioattn.faithfulness.maps import HeadSpread, check_maps, read_maps
from bioattn.faithfulness.measures import Measure, Measures
from bioattn.faithfulness.pointing_checks import Curves, check_pointing
from bioattn.faithfulness.subject import CheckSettings, Subject, draw_sample, draw_treatments
from bioattn.faithfulness.token_checks import check_token_windows, judge_tokens
from bioattn.faithfulness.variant_checks import TreatmentVariants, check_variants
from bioattn.faithfulness.verdict import Verdict, judge
from bioattn.inference.runner import AtomRunner, CheckableRunner, ContactRunner, Probe, TokenRunner, Training
from bioattn.io.files import sha256_of
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest
from bioattn.views.check import SKIPPED_TITLES

LOGGER = logging.getLogger("bioattn")

CHECK_FORMAT = "bioattn-check"
CHECK_VERSION = "1.0"
CONTROLS = {
    "uniform": "control: uniform attention, retrained",
    "shared": "control: one query for all treatments, retrained",
    "gain": "control: one shape for all treatments and gains of their own, retrained",
    "position": "control: own position bias only, retrained",
    "query": "control: own query only, retrained",
    "seed": "control {step}: another seed",
}
"""Models retrained as the user's own, but for one thing, and what is said when that begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Results of all checks."""

    model_sha256: str
    input_sha256: str
    settings: dict[str, Any]
    verdict: Verdict
    measures: Measures
    curves: Curves
    heads: list[HeadSpread]
    variants: list[TreatmentVariants]

    def to_json(self) -> dict[str, Any]:
        """The content of a check file (`docs/formats/check.md`)."""
        return {
            "format": CHECK_FORMAT,
            "format_version": CHECK_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_sha256": self.model_sha256,
            "input_sha256": self.input_sha256,
            "settings": self.settings,
            "verdict": self.verdict.to_json(),
            "measures": [measure.to_json() for measure in self.measures],
            "curves": self.curves,
            "heads": [head.to_json() for head in self.heads],
            "variants": [each.to_json() for each in self.variants],
            "skipped": [{"name": name, "why": why} for name, why in self.measures.skipped.items()],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Optional inputs besides the model and the promoters."""

    model_folder: Path
    """The model folder; its training record holds the settings for training controls."""
    dataset: Path | None = None
    controls: Path | None = None
    """Where retrained controls are kept; None: none are retrained."""
    other_models: Sequence[CheckableRunner] = field(default_factory=tuple)
    """The same model, trained with other seeds."""
    variants: Path | None = None
    """Measured effects of variants of the promoters (`bioattn.promoters.variant_effects`)."""


def check_model(
    model: CheckableRunner,
    promoters: Path,
    evidence: Evidence,
    *,
    treatments: Sequence[str] = (),
    settings: CheckSettings | None = None,
    progress: Progress = SILENT,
    stop: StopRequest | None = None,
) -> CheckReport:
    """Run every check that the evidence allows; the others are listed as skipped, each with its reason.

    treatments: names out of the training treatments; none = all. Memory is flat in the number of promoters.

    Raises: BioattnError for a model without attention over positions, promoters or a dataset that do not fit it;
    Interrupted when `stop` was requested (retrained controls go on from there).
    """
    settings = settings or CheckSettings()
    stop = stop or StopRequest()
    model.require_checkable()
    training = model.training(evidence.model_folder)
    table = (
        model.treatments
        if not treatments
        else model.treatments.select(list(treatments), "--treatment", "the model")
    )
    genes = None if evidence.dataset is None else training.held_out(evidence.dataset, table.names)
    probed = draw_treatments(table.names, settings.probed, settings.seed)
    subject = Subject(
        model=model,
        predictor=model.predictor(table),
        probed=[table.names.index(name) for name in probed],
        sample=draw_sample(
            model.read(promoters), settings.samples, settings.seed, () if genes is None else genes.all_ids
        ),
        genes=genes,
        settings=settings,
        progress=progress,
        stop=stop,
    )
    measures = Measures()
    check_recorded_skill(subject, training.evaluation, measures)
    predictive = check_skill(subject, measures)
    retrained = _retrained(subject, evidence, training, measures, worth_it=predictive is not False)
    maps = read_maps(subject.predictor, subject.sample.codes)
    compare_skills(subject, retrained, measures)
    check_maps(subject, maps, [*evidence.other_models, *retrained["seed"]], measures)
    curves = check_pointing(subject, maps, measures)
    variants = []
    if evidence.variants is not None:
        variants = check_variants(subject, promoters, evidence.variants, measures)
    return CheckReport(
        model_sha256=model.sha256,
        input_sha256=subject.sample.sha256,
        settings={
            **asdict(settings),
            "promoters": len(subject.sample.ids),
            "held_out_promoters": subject.sample.held_out,
            "treatments": len(subject.names),
            "probed_treatments": probed,
            "held_out_genes": None if genes is None else len(genes.ids),
            "split": None if genes is None else genes.split,
            "variants_sha256": None if evidence.variants is None else sha256_of(evidence.variants),
            "dataset_sha256": None if evidence.dataset is None else sha256_of(evidence.dataset),
        },
        verdict=judge(measures),
        measures=measures,
        curves=curves,
        heads=maps.heads,
        variants=variants,
    )


def check_by_likelihood(
    model: TokenRunner | AtomRunner | ContactRunner,
    inputs: Path,
    dataset: Path | None,
    *,
    controls: Sequence[ContactRunner] = (),
    settings: CheckSettings | None = None,
    progress: Progress = SILENT,
    stop: StopRequest | None = None,
) -> CheckReport:
    """Check a model of tokens or of molecules, on `inputs` and, where it is given, what `dataset` holds out; or
    one of alignments, beside `controls`: the same, trained with uniform attention.

    Raises: BioattnError for too few inputs, or a dataset that does not fit the model.
    """
    settings, measures, stop = settings or CheckSettings(), Measures(), stop or StopRequest()
    heads: list[HeadSpread] = []
    drawn: Curves = {}
    probe: Probe
    if isinstance(model, TokenRunner):
        probe, maps, drawn = check_token_windows(model, inputs, dataset, settings, measures, progress, stop)
        heads = [] if maps is None else maps.heads
        verdict = judge_tokens(measures, held_out=dataset is not None or bool(probe.held_out))
        number = {"windows": len(probe.ids), "tokens_per_window": probe.tokens_NL.shape[1]}
    elif isinstance(model, ContactRunner):
        probe = check_alignments(model, inputs, controls, settings, measures, progress, stop)
        verdict = judge_alignments(measures, len(probe.ids), probe.held_out)
        number = {"proteins": len(probe.ids)}
    else:
        probe, heads, drawn = check_atoms(model, inputs, dataset, settings, measures, progress, stop)
        verdict = judge_atoms(measures)
        number = {"molecules": len(probe.ids)}
    return CheckReport(
        model_sha256=model.sha256,
        input_sha256=probe.sha256,
        settings={
            **asdict(settings),
            **number,
            "dataset_sha256": None if dataset is None else sha256_of(dataset),
        },
        verdict=verdict,
        measures=measures,
        curves=drawn,
        heads=heads,
        variants=[],
    )


def _retrained(
    subject: Subject, evidence: Evidence, training: Training, measures: Measures, *, worth_it: bool
) -> dict[str, list[CheckableRunner]]:
    """The controls by name; missing ones are trained."""
    found: dict[str, list[CheckableRunner]] = {name: [] for name in CONTROLS}
    wanted = training.controls_wanted(subject.settings.other_seeds)
    dataset, folder, why = evidence.dataset, evidence.controls, None
    if folder is None:
        why = NO_CONTROLS if dataset is not None else f"{NO_CONTROLS}, and the dataset with --dataset"
    elif not training.found:
        why = "the model folder has no training.json that would say how to train a control"
    elif not worth_it:
        why = NO_SKILL
    if dataset is None or folder is None or why is not None:
        for name, _ in wanted:
            measures.skip(f"{name}_control", why or NO_CONTROLS)
        return found
    if all(name != "shared" for name, _ in wanted):
        measures.skip("shared_control", "the treatments of the model itself share what they attend by")
    if training.unnamed:
        LOGGER.warning(
            f"{evidence.model_folder}: was trained by an earlier version, whose record does not name "
            f"{', '.join(training.unnamed)}; controls are trained with today's defaults, which may favour them"
        )
    for name, step in wanted:
        subject.stop.check()
        LOGGER.info(CONTROLS[name].format(step=step))
        found[name].append(
            training.control(name, step, dataset, folder, progress=subject.progress, stop=subject.stop)
        )
    return found


NOTES = {
    "treatments": "Skill: mean over treatments of Pearson r over genes (binary: 2 · AUROC − 1). Similarity: "
    "Spearman over bins.\nDeletion: share of what sets a prediction apart from its treatment's mean.",
    "windows": "Skill: share of the bits that word frequencies need. Deletion: share of what replacing all tokens "
    "takes.",
    "molecules": "Skill: share of the error (squared; of classes log loss) of the training mean. Deletion: share "
    "of what\nthe network's part of a prediction loses when no atom writes.",
    "proteins": "Skill: share of the bits that frequencies of contacts need. Deletion: share of what is lost "
    "with every\ncolumn in random order, or without rows.",
}
"""What figures are, by a field of the settings of the checks that they are from."""
WORDS = {True: "pass", False: "FAIL", None: ""}


def check_text(report: CheckReport) -> str:
    """The report as text: lines of at most about 120 characters, ending in a newline."""
    lines = [report.verdict.sentence, *(f"But: {caveat}" for caveat in report.verdict.caveats), ""]
    rows = [("measure", "value", "95 % interval", "threshold", "")]
    rows += [_cells(measure) for measure in report.measures]
    label, *others = (max(map(len, column)) for column in list(zip(*rows, strict=True))[:4])
    for name, *cells, state in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, others, strict=True))
        lines.append("  ".join([name.ljust(label), *right, state]).rstrip())
    note = next(note for key, note in NOTES.items() if key in report.settings)
    lines += ["", f"{note} docs/checks.md says more."]
    if report.variants:
        lines += ["", "Variants: Spearman over positions with the measured effects, by treatment"]
    for each in report.variants:
        figures = [
            f"{title} {figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
            for title, figure in (
                ("map", each.map),
                ("with other treatments' effects", each.other_truths),
                ("mutagenesis", each.mutagenesis),
                ("smoothing", each.smoothing),
            )
            if figure is not None
        ]
        lines.append(f"  {each.treatment}: {', '.join(figures)}")
    if report.measures.skipped:
        lines += ["", "Skipped:"]
        for name, why in report.measures.skipped.items():
            lines.append(f"  {SKIPPED_TITLES.get(name, name.replace('_', ' '))}: {why}")
    return "\n".join(lines) + "\n"


def _cells(measure: Measure) -> tuple[str, str, str, str, str]:
    interval = "" if measure.interval is None else f"{measure.interval[0]:.3f} to {measure.interval[1]:.3f}"
    bound = "≤" if measure.name in ("randomised_weights", "best_simple_model") else "≥"
    # Two decimals, and a third where it is not 0: values have three.
    threshold = "" if measure.threshold is None else f"{bound} {measure.threshold:.3f}".removesuffix("0")
    return measure.label, f"{measure.value:.3f}", interval, threshold, WORDS[measure.passed]
