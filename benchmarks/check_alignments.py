"""Planted truth: does `explain check` of models on alignments call each by its name?

    python benchmarks/check_alignments.py --seeds 0 1 2 3 4 -o check.md

Seven cases per seed. Each is a small network of known workings between the inputs and the attention operator of an
MSA/pair model, on families of `simulate msa`. All but the last begin with the covariances of columns:

- `right columns`: every residue attends along a row to columns it varies with, and contacts are read from what it
  attended to alone;
- `wrong columns`: the same, but keys and values are moved by some columns: as accurate, useless maps;
- `same map everywhere`: residues attend to themselves, and covariances are those of what was attended to;
- `uniform`: contacts are read from covariances directly, and uniform attention adds nothing to them;
- `random, ignored`: the same with random attention whose output gate is shut;
- `not needed`: `right columns`, with a control trained with uniform attention that predicts as well;
- `wrong residues`: `right columns`, whose values say the name of another residue: it predicts nothing.

The verdict is compared with the right one. Thresholds are those of `bioattn/checks/thresholds.py`, which
were set for promoter models, before any of these models was made.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from common import options, table
from scipy.optimize import minimize
from scipy.special import logit
from torch import Tensor, nn

from bioattn.alignments.choices import PrepareContacts
from bioattn.alignments.contact_preparation import prepare_contacts
from bioattn.alignments.couplings import average_product_correction
from bioattn.attention.operator import attend
from bioattn.attention.score import DotScore
from bioattn.checks.engine import CheckSettings, Evidence, check_model
from bioattn.checks.record import CheckRecord
from bioattn.choices import MIN_SEPARATION
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
from bioattn.models.evoformer.contact_probe import make_probe
from bioattn.models.evoformer.heads import contact_bins
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.model import ModelOutputs
from bioattn.models.evoformer.run import LoadedEvoformerModel
from bioattn.models.evoformer.sites import alignment_site
from bioattn.simulate.families import FamilySimulation, write_families

RIGHT, WRONG, SAME = "right columns", "wrong columns", "same map everywhere"
UNIFORM, IGNORED = "uniform", "random, ignored"
NOT_NEEDED, RESIDUES = "not needed", "wrong residues"
CASES = {
    RIGHT: "faithful",
    WRONG: "unfaithful",
    SAME: "position-only",
    UNIFORM: "not-used",
    IGNORED: "not-used",
    NOT_NEEDED: "not-used",
    RESIDUES: "model-not-predictive",
}
"""The right verdicts."""
DIRECT = (UNIFORM, IGNORED)
"""Cases whose contacts are read from covariances."""
FAMILIES, FITTED, DEPTH = 5, 5, 192
"""Families that are checked, others that the scale of the logits is fitted on, and rows of each."""
HEADS, BINS, LETTERS = 1, 64, 20
SHARPNESS, SELF = 2.0, 12.0
"""Scale of the logits of attention, and the logit of a residue itself: what it attends to when nothing varies."""
SHOWN = {
    "skill": "skill",
    "uniform_retrained": "lost, uniform retrained",
    "uniform_weights": "lost, uniform",
    "shuffled_weights": "lost, shuffled",
    "other_alignments_maps": "lost, another alignment's",
    "other_residues_weights": "lost, another residue's",
    "attention_contacts": "contacts of attention ÷ the model's",
    "deletion": "deletion beyond random",
    "deletion_against_contacts": "deletion ÷ likeliest contacts'",
}


class PlantedContacts(nn.Module):
    """A network whose way to contacts is that of a case."""

    def __init__(self, case: str, seed: int) -> None:
        super().__init__()
        self.case, self.seed = case, seed
        uniform = case == UNIFORM
        self.config = EvoformerConfig(structure_module=None, recycling=False, uniform_msa_attention=uniform)
        self.row = alignment_site("evoformer", 0, "msa_row", HEADS)
        self.scale, self.offset = 1.0, 0.0
        self.shift = int(np.random.default_rng([seed, 1]).integers(8, 14))

    def forward(self, inputs: ModelInputs) -> ModelOutputs:
        """Distances of which the first bins are contacts, with the probability of the network."""
        logit_RR = self.scale * self.evidence(inputs) + self.offset
        near = contact_bins(BINS)
        logits = torch.zeros(*logit_RR.shape, BINS)
        logits[..., :near] += (logit_RR - np.log(near / (BINS - near)))[..., None]
        return ModelOutputs(None, None, None, None, logits, None, None, None, None)  # type: ignore[arg-type]

    def evidence(self, inputs: ModelInputs) -> Tensor:
        """How much speaks for each contact, (R, R)."""
        cells_SRA, mask_SR = inputs.msa_feat[..., :LETTERS], inputs.msa_mask
        residues = cells_SRA.shape[1]
        centred_SRA = cells_SRA - (cells_SRA * mask_SR[..., None]).sum(0) / mask_SR.sum(0)[:, None]
        if self.case == SAME:
            own = 50 * torch.eye(residues)
            # What uniform weights would give is the same for all columns, and varies with nothing.
            return coupled(self._rows(own, centred_SRA), mask_SR)
        key = hash(centred_SRA.numpy().tobytes())
        if key not in _KNOWN:
            _KNOWN[key] = coupled(centred_SRA, mask_SR)
        coupling_RR = _KNOWN[key]
        if self.case == UNIFORM:
            nothing_RR = torch.zeros_like(coupling_RR)
            said = self._rows(nothing_RR, torch.eye(residues).expand(len(mask_SR), -1, -1))
            return coupling_RR + (said.mean(0) - 1 / residues)
        if self.case == IGNORED:
            random = torch.Generator().manual_seed(self.seed)
            noise = 2 * torch.randn(coupling_RR.shape, generator=random)
            said = self._rows(noise, torch.eye(residues).expand(len(mask_SR), -1, -1))
            return coupling_RR + 0 * said.mean(0)
        names_RR, logits_RR = torch.eye(residues), SHARPNESS * coupling_RR + SELF * torch.eye(residues)
        if self.case == WRONG:
            names_RR, logits_RR = names_RR.roll(self.shift, 0), logits_RR.roll(self.shift, 1)
        if self.case == RESIDUES:
            names_RR = names_RR[torch.randperm(residues, generator=torch.Generator().manual_seed(self.seed))]
        said_RR = self._rows(logits_RR, names_RR.expand(len(mask_SR), -1, -1)).mean(0)
        return (said_RR + said_RR.T + 1e-7).log()

    def _rows(self, logits_RR: Tensor, value_SRV: Tensor) -> Tensor:
        """What residues attend to along each row, (S, R, V)."""
        nothing = torch.zeros(*value_SRV.shape[:1], HEADS, value_SRV.shape[1], 1)
        value_SHRV = value_SRV[:, None].expand(-1, HEADS, -1, -1)
        bias_HRR = logits_RR.expand(HEADS, -1, -1)
        attended = attend(nothing, nothing, value_SHRV, score=DotScore(), bias=bias_HRR, site=self.row)
        return attended.mean(1)


_KNOWN: dict[int, Tensor] = {}
"""Couplings by the hash of the cells: cases are asked of the same alignments."""


def coupled(centred_SRA: Tensor, mask_SR: Tensor) -> Tensor:
    """Norms of the covariances of columns, corrected by APC, in standard deviations, (R, R)."""
    kept = centred_SRA * mask_SR[..., None]
    flat = kept.flatten(1)
    blocks = (flat.T @ flat / mask_SR.sum(0).max()).view(*kept.shape[1:], *kept.shape[1:])
    corrected = average_product_correction(blocks.square().sum(3).sum(1).sqrt().double().numpy())
    return torch.from_numpy(corrected / max(corrected.std(), 1e-6)).float()


def planted_runner(case: str, seed: int, fitted: Path) -> LoadedEvoformerModel:
    """The network of a case; the scale of its logits is fitted on other families, as that of `right columns` where
    the case has none."""
    network = PlantedContacts(RIGHT if case == NOT_NEEDED else case, seed)
    runner = LoadedEvoformerModel(
        model=network,
        device=torch.device("cpu"),
        path=fitted.parent / "planted",
        sha256="planted",
        name=case,
        inputs=InputSettings(max_msa_clusters=DEPTH, max_extra_msa=1, masked_fraction=0.0, num_recycles=0),
    )
    if case == RESIDUES:
        network.case = RIGHT
    found, labels = [], []
    probe = make_probe(runner, fitted, CheckSettings())
    for number in range(len(probe.ids)):
        pairs = np.triu(probe.separations[number] >= MIN_SEPARATION)
        found.append(logit(np.clip(probe.contacts(number)[pairs], 1e-6, 1 - 1e-6)))
        labels.append(probe.truth(number)[pairs])
    evidence, label = np.concatenate(found), np.concatenate(labels)

    def loss(values: np.ndarray) -> float:
        logits = values[0] * evidence + values[1]
        return float((np.logaddexp(0, logits) - label * logits).mean())

    network.scale, network.offset = minimize(loss, [1.0, -3.0], method="Nelder-Mead").x
    network.case = RIGHT if case == NOT_NEEDED else case
    return runner


def families(folder: Path, seed: int) -> tuple[Path, Path]:
    """Datasets of families to check and of others to fit scales on."""
    datasets = []
    for name, number, start in (("checked", FAMILIES, 0), ("fitted", FITTED, 1)):
        simulation = FamilySimulation(
            families=number, depths=(DEPTH, DEPTH), lengths=(40, 44), strength=1.0, seed=2 * seed + start
        )
        write_families(folder / name, simulation)
        datasets.append(folder / f"{name}.h5")
        prepare_contacts(PrepareContacts(pairs=folder / name / "PAIRS.tsv", output=datasets[-1]))
    return datasets[0], datasets[1]


def check_case(case: str, seed: int, checked: Path, fitted: Path) -> CheckRecord:
    controls = [planted_runner(UNIFORM, seed, fitted)] if case == NOT_NEEDED else []
    runner, evidence = planted_runner(case, seed, fitted), Evidence(other_models=controls)
    return check_model(runner, checked, evidence, settings=CheckSettings(seed=seed))


def markdown(results: dict[str, list[CheckRecord]]) -> str:
    found = {
        case: Counter(str(report.verdict.code) for report in reports) for case, reports in results.items()
    }
    codes = sorted({code for counts in found.values() for code in counts})
    verdicts = (
        [case, *(f"**{counts[c]}**" if c == CASES[case] else counts[c] or "" for c in codes)]
        for case, counts in found.items()
    )
    measures = []
    for case, reports in results.items():
        cells = []
        for name in SHOWN:
            values = [m.value for report in reports for m in report.measures if m.name == name]
            known = [value for value in values if np.isfinite(value)]
            cells.append(f"{np.mean(known):.2f} ({min(known):.2f} to {max(known):.2f})" if known else "")
        measures.append([case, *cells])
    heading = ["case", *(f"`{code}`" for code in codes)]
    return f"{table(heading, verdicts)}\n{table(['case', *SHOWN.values()], measures)}"


def main() -> None:
    """Run every case of every seed, print the tables."""
    given = options(__doc__, seeds=(0, 1, 2, 3, 4)).parse_args()
    torch.set_num_threads(1)
    results: dict[str, list[CheckRecord]] = {case: [] for case in CASES}
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as folder:
            checked, fitted = families(Path(folder), seed)
            for case in CASES:
                results[case].append(check_case(case, seed, checked, fitted))
        verdicts = {case: str(reports[-1].verdict.code) for case, reports in results.items()}
        print(f"seed {seed}: {verdicts}", file=sys.stderr, flush=True)
    right = sum(
        str(report.verdict.code) == CASES[case] for case, reports in results.items() for report in reports
    )
    text = f"{right} of {len(CASES) * len(given.seeds)} verdicts are right.\n\n{markdown(results)}"
    if given.output is not None:
        given.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
