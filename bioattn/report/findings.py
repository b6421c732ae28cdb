"""What was asked and what was found, in sentences made from the figures: also when a simple model wins, or when
something was not looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bioattn.checks.next_steps import Names, beaten
from bioattn.checks.record import CheckRecord, tone_of
from bioattn.choices import SPLIT_NAMES, TEST
from bioattn.interpret.motifs.motif_folder import SURE, MotifTables
from bioattn.io.files import read_json
from bioattn.models.evaluation import HEADLINE_TITLES, METRIC_TITLES, Evaluation, read_comparison
from bioattn.models.family import CONFIG
from bioattn.promoters.dataset import PromoterDataset
from bioattn.report.alignments import AlignmentPage
from bioattn.report.promoters import PromoterBrowser
from bioattn.store.training_record import Comparison
from bioattn.text import counted, percentage

Tone = Literal["good", "bad", "open", "plain"]
"""`open`: not known, because nobody looked."""

ALIKE, APART = 0.95, 0.8
"""Median correlation of treatments' maps from which on they are called alike, and below which different."""
FIGURE_TITLES = {"P@L": "precision of the L likeliest contacts"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence and what to make of it."""

    topic: str
    text: str
    tone: Tone = "plain"
    leads: bool = False


def questions(
    dataset: PromoterDataset | None,
    browser: PromoterBrowser | None,
    conditioning: str | None,
    pages: Sequence[AlignmentPage],
) -> list[str]:
    """What was asked of the model."""
    asked = []
    if dataset is not None:
        sizes = [f"{len(dataset.genes_in(code)):,} for {name}" for code, name in enumerate(SPLIT_NAMES)]
        what = "whether they respond" if dataset.task == "binary" else "how strongly they respond"
        asked.append(
            f"Of {counted(dataset.num_genes, 'promoter')} of {dataset.length:,} bases and "
            f"{counted(dataset.num_treatments, 'treatment')}: {what}, from the sequence alone "
            f"({', '.join(sizes)}{_split(dataset)})."
        )
    if browser is not None:
        model = f"a model of the kind “{conditioning}”" if conditioning else "the model"
        asked.append(
            f"Where {model} looks in {counted(len(browser.lines), 'promoter')} for each of "
            f"{counted(len(browser.treatments), 'treatment')}, and whether that may be believed."
        )
    if pages:
        names = ", ".join(page.id for page in pages[:3]) + (", …" if len(pages) > 3 else "")
        asked.append(
            f"Which residues touch in {counted(len(pages), 'protein')} ({names}), from the alignment alone, and "
            "which heads of the model say so."
        )
    return asked


def _split(dataset: PromoterDataset) -> str:
    split = dataset.metadata.get("split") or {}
    chromosomes = (split.get("chromosomes") or {}).get(SPLIT_NAMES[TEST])
    if chromosomes:
        shown = ", ".join(map(str, chromosomes[:4])) + (", …" if len(chromosomes) > 4 else "")
        return f"; test chromosomes {shown}"
    kind = split.get("genes")
    return f"; split by {kind}" if isinstance(kind, str) else ""


def accuracy_findings(accuracy: Evaluation | None, has_model: bool) -> Iterator[Finding]:
    """The model beside the best simple model."""
    if accuracy is None:
        if has_model:
            yield Finding("Accuracy", "This model was never scored on genes it had not seen.", "open")
        return
    cells, metric = next(iter(accuracy.by_cells)), accuracy.headline
    model, simple = accuracy.model_and_simple(cells)
    if (value := model.figure(metric)) is None:
        yield Finding("Accuracy", "The record of the training has no figure of the model itself.", "open")
        return
    title = HEADLINE_TITLES[metric]
    figure = f"{title} {value:.3f}"
    if accuracy.interval is not None:
        figure += f" [{accuracy.interval[0]:.3f}, {accuracy.interval[1]:.3f}]"
    if accuracy.beside is not None:
        yield _beside_simple("model", accuracy.beside, figure)
    elif accuracy.simple_model:
        text = f"No network: --keep-best kept the best simple model. On {cells} the model reaches a {figure}."
        yield Finding("Accuracy", text, "bad", leads=True)
    else:
        text = f"On {cells} the model reaches a {figure}. No simple model was fitted beside it, so this says "
        yield Finding("Accuracy", text + "little: train without --no-baselines.", "open")
    specific = model.figure("specific_pearson")
    if specific is not None and len(accuracy.per_treatment) > 1:
        other = simple.figure("specific_pearson")
        words = f"On the part of the responses that differs between treatments, r is {specific:.3f}"
        if other is not None:
            words += f" ({simple.plain_name}: {other:.3f})"
        words += "."
        ahead = other is None or specific > other
        if specific < 0.05:
            words += " There is hardly any treatment-specific part that the model predicts."
        elif not ahead:
            words += " A simple model predicts the treatment-specific part at least as well."
        tone: Tone = "bad" if specific < 0.05 or not ahead else "open" if other is None else "good"
        yield Finding("Treatment-specific part", words, tone)


def data_findings(other: Path | None) -> Iterator[Finding]:
    """What a dataset that the model was not trained on shows."""
    if other is not None:
        text = f"{other.name} is not the dataset that the model was trained on: measured responses are not those "
        text += "behind these figures, and which genes were held out is not shown."
        yield Finding("Accuracy", text, "open", leads=True)


def _beside_simple(kind: str, beside: Comparison, figure: str) -> Finding:
    """The model beside the best simple one. kind: what that is. figure: what the model reaches."""
    cells, _, _, name, simple, _ = beside.as_in_tables()
    tone: Tone = "bad"
    if beside.below:
        text = f"A simple {kind} wins: on {cells} {name} reaches {simple:.3f}, this model a {figure}. "
        text += "What its attention shows explains the worse of the two."
    elif beside.gain is not None and beside.gain[0] <= 0:
        text = f"No clear gain over a simple model: on {cells} the model reaches a {figure}, "
        text += f"{name} {simple:.3f}."
    else:
        text = f"On {cells} the model reaches a {figure}; the best simple {kind}, {name}, {simple:.3f}."
        tone = "good"
    return Finding("Accuracy", text, tone, leads=True)


def comparison_findings(model: Path, record: Mapping[str, Any]) -> Iterator[Finding]:
    """A trained model of any family beside the best simple model, as its training record has it."""
    comparison = read_comparison(model, record)
    if comparison is not None:
        _, figure, ours, *_ = comparison.as_in_tables()
        yield _beside_simple("method", comparison, f"{FIGURE_TITLES.get(figure, figure)} of {ours:.3f}")


def next_findings(model: Path, record: Mapping[str, Any]) -> Iterator[Finding]:
    """What to do with a trained model of any family that ends below a simple one."""
    comparison = read_comparison(model, record)
    if comparison is not None and comparison.below:
        data = record.get("dataset") or {}
        family = read_json(model / CONFIG)["model_type"]
        names = Names.of(family, Path(model.resolve().name), None, Path(data["file"]) if data else None)
        yield Finding("Accuracy", f"Next: {beaten(comparison, names)}", "open")


def headline(found: Sequence[Finding]) -> str:
    """What of the accuracy belongs into the headline; empty where the model is ahead or nothing is known."""
    bad = next((each.text for each in found if each.topic == "Accuracy" and each.tone == "bad"), "")
    return bad.partition(":")[0].lower() if bad else ""


def check_findings(
    check: CheckRecord | None, asked: bool, quick: str = "", code: str = ""
) -> Iterator[Finding]:
    """The verdict; without one that of the quick check at the end of the training, or that there is none."""
    if check is None:
        if asked and code:
            said = quick or f"The quick check at the end of the training says: {code.replace('-', ' ')}."
            text = f"{said} Next: `bioattn explain check` checks more, and its JSON belongs into this report."
            yield Finding("Check", text, tone_of(code), leads=True)
        elif asked:
            yield Finding(
                "Check",
                "Not checked: nobody has tested whether the attention shown here is what the model uses. Run "
                "bioattn explain check and give its JSON to this report; until then the maps are pictures, not "
                "evidence.",
                "open",
                leads=True,
            )
        return
    text = check.verdict.sentence
    if check.is_provisional:
        text = f"Provisional, until controls have been retrained (explain check --controls): {text}"
    if any(measure.outcome for measure in check.measures):
        text += f" {check.counts()}"
        text += f", {len(check.skipped)} not run." if check.skipped else "."
    first = next((f" Next: {step}" for step in check.verdict.next), "")
    yield Finding("Check", f"{text}{first}", check.tone, leads=True)
    for sentence in check.sentences[1:]:
        if sentence != first.strip():
            yield Finding("Check", sentence, "open")


def map_findings(browser: PromoterBrowser | None, *, specific: bool = True) -> Iterator[Finding]:
    """How far maps spread, and how much treatments differ.

    specific: whether no check says or leaves open that maps are not those of their treatment: then how they differ
    is not told.
    """
    if browser is None:
        return
    site = browser.sites[0]
    bins = len(site.key_edges) - 1
    width = float(np.median(np.diff(site.key_edges)))
    spread = float(np.median(site.effective_bins_TH))
    signed = site.quantity.signed
    if signed:
        yield Finding(
            "What is shown",
            "Contributions: what attention to each bin adds to the prediction, with its sign; together they are "
            "the prediction. The attention weights stand beside, under “Maps”.",
        )
    what = "The contributions to a response spread" if signed else "A head spreads its attention"
    yield Finding(
        f"Spread of {site.quantity}",
        f"{what} over {spread:.1f} of {bins} bins of {width:g} bases (exp of the entropy; "
        f"{bins} would be the same everywhere)."
        + (" That is hardly more pointed than no attention at all." if spread > 0.8 * bins else ""),
        "bad" if spread > 0.8 * bins else "plain",
    )
    if len(site.treatments) > 1 and specific:
        upper = np.triu_indices(len(site.treatments), k=1)
        alike = float(np.median(site.specific_similarity_TT[upper]))
        share = site.between_share
        figures = (
            f" Without the profile that all promoters share, {site.quantity} of two treatments correlate with a "
            f"median r of {minus(alike, 2)}; {percentage(share)} of their variance differs between treatments."
        )
        tone: Tone = "plain"
        if alike >= ALIKE:
            words, tone = "The model looks at nearly the same places for every treatment.", "bad"
        elif alike >= APART:
            words = "Treatments share most of the places that the model looks at."
        else:
            words = "The model looks at different places for different treatments."
        yield Finding("Where the model looks", words + figures, tone, leads=True)


def motif_findings(motifs: MotifTables | None, *, believed: bool = True) -> Iterator[Finding]:
    """What attended windows hold. believed: whether no check says that maps mislead."""
    if motifs is None:
        return
    numbers = motifs.motifs["source"].value_counts().sort_index().to_dict()
    filters = numbers.pop("filter", 0)
    windows = " and ".join(f"{number:,} from {source}" for source, number in numbers.items())
    text = "No motif in attended windows."
    if numbers:
        text = f"{counted(sum(numbers.values()), 'motif')} ({windows})."
    found = [motif for motif in motifs.shown() if motif.source != "filter" and motif.closest]
    if found:
        matched = [motif.closest for motif in found if (motif.match_q_value or 0) <= SURE]
        named = list(dict.fromkeys(matched))
        text += f" {len(matched)} resemble a motif of the database (q ≤ 0.05)"
        text += f": {', '.join(named[:5])}{', …' if len(named) > 5 else ''}." if named else "."
    if filters:
        text += f" {counted(filters, 'filter')} of the first layer beside."
    table = motifs.treatments
    if len(table):
        gains = table[(table["q_value"] <= SURE) & (table["ratio"] > 1)]
        text += (
            f" In {gains['treatment'].nunique()} of {counted(table['treatment'].nunique(), 'treatment')} a motif "
            "gains attention against its reference (q ≤ 0.05)"
        )
        if len(gains):
            largest = gains.iloc[int(gains["ratio"].argmax())]
            text += f", at most ×{largest.ratio:.2f}, {motifs.title(largest.motif)} in {largest.treatment}"
        text += "."
    if not believed:
        text = f"Of maps that are not to be believed: {text}"
    yield Finding("Motifs", text, "plain" if believed else "bad", leads=believed)


def alignment_findings(pages: Sequence[AlignmentPage], left_out: Sequence[str]) -> Iterator[Finding]:
    """Contacts, against the structure where one was given."""
    for page in pages[:6]:
        for concern in page.concerns:
            yield Finding(page.id, f"Of the alignment: {concern}.", "bad", leads=True)
        likely = f"{counted(page.num_likely, 'pair')} of residues with a probability above one half"
        if page.mean_plddt is not None:
            yield Finding(page.id, f"The predicted structure has a mean pLDDT of {page.mean_plddt:.1f}.")
        if page.contact is None:
            yield Finding(page.id, "Attention only: no prediction of this protein was given.", "open")
        elif page.prediction_scores is None or not np.isfinite(page.prediction_scores["P@L"]):
            text = f"{likely}. No structure was given, so nobody knows how many of them touch."
            yield Finding(page.id, text, "open", leads=True)
        else:
            scores = page.prediction_scores
            text = (
                f"Of the L likeliest pairs {percentage(scores['P@L'])} touch in the structure, of the L/5 "
                f"likeliest {percentage(scores['P@L/5'])} (L is the number of residues in the structure). "
                f"{likely}."
            )
            tone: Tone = "open" if page.trained_on else "good" if scores["P@L"] >= 0.5 else "bad"
            yield Finding(page.id, text, tone, leads=True)
            if good := [head for head in page.heads if head.precision is not None]:
                best = max(good, key=lambda head: head.precision or 0.0)
                of_site = "" if best.head is None else f", head {best.head}"
                yield Finding(
                    f"{page.id}: attention",
                    f"The best of {counted(len(good), 'head')} ({best.kind}, block {best.block}{of_site}, counted "
                    f"from 0 as in the file) finds {percentage(best.precision or 0)} of the L likeliest pairs "
                    "right. It was chosen on this very structure, so the figure is optimistic.",
                    leads=True,
                )
        if page.trained_on is not None:
            yield Finding(
                page.id,
                f"The model was trained on {page.trained_on}, which is like this protein: how good these contacts "
                "are says nothing of other proteins.",
                "open",
                leads=True,
            )
    if any(page.prediction_scores is not None and page.trained_on is None for page in pages):
        yield Finding(
            "Contacts",
            "If the model was trained on these proteins or on their relatives, these figures say little. This "
            "page cannot tell.",
            "open",
            leads=True,
        )
    if len(pages) > 6 or left_out:
        more = len(pages) + len(left_out)
        yield Finding("Alignments", f"{more:,} proteins in all; {len(pages):,} have a page below.", "plain")


def per_treatment_words(accuracy: Evaluation) -> str:
    """The spread over treatments in a sentence."""
    known = [(value, name) for name, value in accuracy.of_treatments().items() if value is not None]
    if not known:
        return ""
    low, middle, high = np.quantile([value for value, _ in known], [0.25, 0.5, 0.75])
    lowest, worst = min(known)
    title = METRIC_TITLES[accuracy.headline]
    return (
        f"Over {counted(len(known), 'treatment')}: {title} {middle:.3f} in the middle, half of them between "
        f"{low:.3f} and {high:.3f}; the worst is {worst} with {lowest:.3f}."
    )


def minus(value: float, decimals: int = 0) -> str:
    """A number with a typographic minus."""
    return f"{value:.{decimals}f}".replace("-", "−")
