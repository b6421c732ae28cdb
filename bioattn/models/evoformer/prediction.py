"""What an MSA/pair model predicts of one alignment, as NumPy arrays, and the files of it.

`docs/formats/evoformer-output.md` says what is in the files. Shapes: S MSA rows, R columns that the model sees, N
distance bins, C channels.
"""

import json
import logging
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn import __version__
from bioattn.attention.capture import AttentionReceiver, capture
from bioattn.errors import BioattnError
from bioattn.formats.alignment import GAP, Alignment
from bioattn.formats.rr import ranked_pairs, write_rr
from bioattn.formats.structure_file import PdbRoomError, write_mmcif, write_pdb
from bioattn.inference.alignment_inputs import InputFile
from bioattn.inference.passes import require_finite
from bioattn.io.dataset_file import DatasetKind
from bioattn.io.files import text_output, write_json
from bioattn.io.hdf5 import hdf5_file, put_array, set_attribute
from bioattn.models.evoformer.config import Representation
from bioattn.models.evoformer.heads import (
    bin_edges,
    contact_bins,
    plddt,
    predicted_aligned_error,
    predicted_tm_score,
)
from bioattn.models.evoformer.inputs import AlignmentInputs
from bioattn.models.evoformer.model import EvoformerModel, ModelOutputs
from bioattn.models.evoformer.sites import alignment_sample
from bioattn.models.evoformer.stacks import EvoformerBlock
from bioattn.store.schema import Samples
from bioattn.structures.ideal_geometry import predicted_residues
from bioattn.structures.predictions import (
    ALIGNED_ERROR,
    DISTANCES,
    DISTOGRAM,
    MAX_ALIGNED_ERROR,
    REPRESENTATIONS,
    SCORES,
)
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
_ROWS_AT_ONCE = 64


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Prediction:
    """What a model says of an alignment; None where it has no such part."""

    bin_edges: NDArray[np.float32] | None = None
    """(N - 1,) Å between distance bins."""
    distogram: NDArray[np.float32] | None = None
    """(R, R, N) probabilities."""
    contact_probability: NDArray[np.float32] | None = None
    """(R, R) that CB atoms are closer than 8 Å."""
    expected_distance: NDArray[np.float32] | None = None
    """(R, R) Å; the open bins at both ends count as wide as the others."""
    aligned_error: NDArray[np.float32] | None
    """(R, R) Å, not symmetric."""
    ptm: float | None
    """Predicted TM-score, 0..1."""
    plddt: NDArray[np.float32] | None
    """(R,) 0..100."""
    atom37: NDArray[np.float32] | None
    """(R, 37, 3) Å."""
    representations: dict[Representation, NDArray[np.float32]] = field(default_factory=dict)

    def __repr__(self) -> str:
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        shapes = [f"{name} {values.shape}" for name, values in (arrays | self.representations).items()]
        return f"<prediction: {', '.join(shapes)}>"


def predict(
    model: EvoformerModel,
    inputs: AlignmentInputs,
    *,
    seed: int,
    progress: Progress,
    request: StopRequest,
    description: str = "blocks",
    representations: Sequence[Representation] = (),
    receiver: AttentionReceiver | None = None,
    sites: Sequence[str] = (),
) -> Prediction:
    """Run all passes of all samples that `inputs.settings` ask for.

    Each pass is a new sample of rows and masked cells. Distances are averaged over samples; the structure, the
    representations and the attention (of `sites`, to `receiver`) are those of the first sample's last pass.

    Raises: BioattnError when the device is out of memory; NotFiniteError; Interrupted.
    """
    settings, device = inputs.settings, next(model.parameters()).device
    num_passes = settings.num_recycles + 1
    blocks = sum(isinstance(module, EvoformerBlock) for module in model.modules())
    progress.begin(description, blocks * num_passes * settings.num_samples)
    total: NDArray[np.float32] | None = None
    first: Prediction | None = None
    try:
        for sample in range(settings.num_samples):
            first_pass = sample * num_passes
            listening = receiver is not None and sample == 0
            with (
                torch.inference_mode(),
                _watch(model, num_passes, progress, request, sites if listening else (), receiver),
            ):
                outputs = model(
                    lambda number, first=first_pass: inputs.sample(seed, first + number).to(device),
                    settings.num_recycles,
                )
                if (logits := outputs.distogram_logits) is not None:
                    total = np.zeros(tuple(logits.shape), np.float32) if total is None else total
                    for start in range(0, len(logits), _ROWS_AT_ONCE):
                        rows = slice(start, start + _ROWS_AT_ONCE)
                        total[rows] += _numbers(logits[rows].float().softmax(-1), "distances")
                if first is None:
                    first = _read_outputs(outputs, representations)
                del outputs, logits
    except torch.OutOfMemoryError as error:
        raise BioattnError(
            f"{device}: out of memory with {inputs.num_clusters} + {inputs.num_extra} rows and "
            f"{len(inputs.columns)} columns; give a smaller --max-msa-clusters, or max_extra_msa in [inputs] of "
            "--config, or --device cpu"
        ) from error
    finally:
        progress.end()
    assert first is not None
    return first if total is None else _with_distances(first, total, settings.num_samples)


@contextmanager
def _watch(
    model: nn.Module,
    num_passes: int,
    progress: Progress,
    request: StopRequest,
    sites: Sequence[str],
    receiver: AttentionReceiver | None,
) -> Iterator[None]:
    """Follow the model from block to block: progress, stop requests, and attention in the last pass alone."""
    begun = 0
    with ExitStack() as stack:

        def begin_pass(_module: nn.Module, _arguments: Any) -> None:
            nonlocal begun
            begun += 1
            if begun == num_passes and sites and receiver is not None:
                stack.enter_context(capture(sites, receiver))

        def end_block(_module: nn.Module, _arguments: Any, _states: Any) -> None:
            request.check()
            progress.advance(1, **({"pass": f"{begun}/{num_passes}"} if num_passes > 1 else {}))

        embedder = model.get_submodule("input_embedder")
        stack.callback(embedder.register_forward_pre_hook(begin_pass).remove)
        for module in model.modules():
            if isinstance(module, EvoformerBlock):
                stack.callback(module.register_forward_hook(end_block).remove)
        yield


def _with_distances(prediction: Prediction, total: NDArray[np.float32], num_samples: int) -> Prediction:
    """total: the sum of probabilities (R, R, N) over samples."""
    num_bins = total.shape[-1]
    probabilities = total
    if num_samples > 1:
        probabilities /= np.float32(num_samples)
    edges = bin_edges(num_bins).numpy()
    step = edges[1] - edges[0] if len(edges) > 1 else np.float32(1)
    middles = np.append(edges, edges[-1] + step) - step / 2
    return replace(
        prediction,
        bin_edges=edges,
        distogram=probabilities,
        contact_probability=np.clip(probabilities[..., : contact_bins(num_bins)].sum(-1), 0, 1),
        expected_distance=probabilities @ middles.astype(np.float32),
    )


def _read_outputs(outputs: ModelOutputs, representations: Sequence[Representation]) -> Prediction:
    structure = outputs.structure
    states = {
        Representation.SINGLE: outputs.single,
        Representation.PAIR: outputs.pair,
        Representation.MSA: outputs.msa,
        Representation.MSA_FIRST_ROW: outputs.msa[0],
        Representation.STRUCTURE: None if structure is None else structure.single,
    }
    kept = {}
    for name in representations:
        state = states[name]
        assert state is not None
        kept[name] = _numbers(state, f"the {name} representation")
    errors = outputs.aligned_error_logits
    ptm = None if errors is None else float(predicted_tm_score(errors))
    return Prediction(
        aligned_error=None if errors is None else _numbers(predicted_aligned_error(errors), "aligned errors"),
        ptm=ptm,
        plddt=None if outputs.plddt_logits is None else _numbers(plddt(outputs.plddt_logits), "pLDDT"),
        atom37=None if structure is None else _numbers(structure.atom37, "coordinates"),
        representations=kept,
    )


def _numbers(tensor: Tensor, what: str) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    require_finite(array, what, ", or --precision fp32")
    return array


_RANGE = re.compile(r"/(\d+)-(\d+)$")


def target_numbers(alignment: Alignment) -> list[int | None]:
    """Residue number of row 1 in each match column, None where it has a gap.

    Residues are numbered from 1, insertions counted; or from the first number of a name that ends in
    `/start-end`, as Pfam's do, when that says as many residues as there are.
    """
    inserted = alignment.insertions[0]
    found = _RANGE.search(alignment.names[0])
    length = len(alignment.sequence(0))
    number = int(found[1]) if found and int(found[2]) - int(found[1]) + 1 == length else 1
    numbers: list[int | None] = []
    for column, residue in enumerate(alignment.residues[0]):
        number += len(inserted.get(column, ""))
        numbers.append(None if residue == GAP else number)
        number += int(residue != GAP)
    return numbers


CONTACTS_RR = "contacts.rr"
CONTACTS_TABLE = "contacts.tsv"
REPRESENTATIONS_FILE = "representations.h5"
STRUCTURE_PDB = "structure.pdb"
STRUCTURE_MMCIF = "structure.cif"
PREDICTION_FILES = frozenset(
    {
        *(CONTACTS_RR, CONTACTS_TABLE, DISTOGRAM, REPRESENTATIONS_FILE),
        *(STRUCTURE_PDB, STRUCTURE_MMCIF, ALIGNED_ERROR, SCORES),
    }
)


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedAlignment:
    """An alignment ready to run, whose row 1 is called `target`; R match columns that the model sees."""

    source: InputFile
    sha256: str
    model_sha256: str
    target: str
    letters: str
    """One letter of the target per column of the alignment, `-` where it has a gap."""
    numbers: list[int | None]
    """(R,) residue numbers of the target, None where it has a gap."""
    num_inserted: int
    """Residues of the target that stand in no column."""
    inputs: AlignmentInputs
    row_names: Sequence[str]
    template_names: Sequence[str] = ()
    """Of the rows that templates add to the clustered MSA."""
    trained_on: str | None = None
    """The training family that the target is like."""
    warnings: Sequence[str] = ()
    """Reasons not to expect contacts from the alignment."""

    def sample(self, seed: int) -> Samples:
        """The line of the attention file; rows are those of the last pass."""
        inputs = self.inputs
        records = inputs.encoded.records
        assert records is not None
        clusters, extra = (
            [self.row_names[record] for record in records[rows]]
            for rows in inputs.rows_of(seed, inputs.settings.num_recycles)
        )
        return alignment_sample(
            id=self.source.name,
            query="".join(self.letters[column] for column in inputs.columns),
            rows=inputs.num_clusters + len(self.template_names),
            extra_rows=inputs.num_extra,
            input_sha256=self.sha256,
            columns=inputs.columns.tolist(),
            alignment_columns=len(self.letters),
            numbers=self.numbers,
            row_names=[*clusters, *self.template_names],
            extra_row_names=extra or [""],
        )

    def tell(self, *, predicts_atoms: bool) -> None:
        """Say what is run, and what may be unexpected about it."""
        source, inputs, columns = self.source, self.inputs, len(self.letters)
        left_out = columns - len(inputs.columns)
        LOGGER.info(
            f"{source.name}: {counted(len(self.row_names), 'row')} ({len(inputs.encoded.msa):,} distinct), "
            f"{counted(columns, 'column')}"
            + (f" ({left_out:,} mostly gaps and left out)" if left_out else "")
            + f"; per pass {counted(inputs.num_clusters, 'cluster row')} and "
            f"{counted(min(inputs.num_extra, inputs.num_drawn - inputs.num_clusters), 'extra row')}"
        )
        odd = []
        if num_gaps := self.letters.count("-"):
            odd.append(f"gaps in {counted(num_gaps, 'column')}, which count as unknown residues")
        if self.num_inserted:
            odd.append(
                f"{counted(self.num_inserted, 'residue')} outside the columns, which are not predicted"
            )
        if odd:
            say = LOGGER.warning if predicts_atoms else LOGGER.info
            say(
                f"{source.name}: row 1, the target, has {' and '.join(odd)} (--query "
                f"{shlex.quote(self.target)} makes its residues the columns)"
            )
        for sentence in self.warnings:
            LOGGER.warning(f"{source.path}: {sentence}")


def write_prediction(
    folder: Path, subject: PreparedAlignment, prediction: Prediction, scores: Mapping[str, Any]
) -> list[str]:
    """Write all files of a prediction into `folder`; returns their names. `scores` go to `scores.json` first.

    Raises: BioattnError when a file cannot be written.
    """
    written = []
    summary: dict[str, Any] = dict(scores)
    near, errors = prediction.contact_probability, prediction.aligned_error
    if near is not None:
        summary["contact_pairs"] = _write_contacts(folder, subject, prediction)
        assert prediction.bin_edges is not None
        bins = np.arange(len(prediction.bin_edges) + 1, dtype=np.int32)
        distances: list[_Array] = [
            ("bin_edge", prediction.bin_edges, (), "Å between two distance bins"),
            ("bin", bins, (), "distance bin, from 0"),
            ("probability", prediction.distogram, (*_PAIR, "bin"), "probability of a distance bin"),
            ("contact_probability", near, _PAIR, "probability of a distance below 8 Å"),
            ("expected_distance", prediction.expected_distance, _PAIR, "expected distance of CB atoms"),
            ("aligned_error", errors, _PAIR, "expected error of column_j, aligned at column_i"),
        ]
        _write_arrays(folder / DISTOGRAM, DISTANCES, subject, distances)
        written += [CONTACTS_RR, CONTACTS_TABLE, DISTOGRAM]
    if prediction.representations:
        states: list[_Array] = []
        for name, array in prediction.representations.items():
            channel, row = f"{name}_channel", "row"
            states.append((channel, np.arange(array.shape[-1], dtype=np.int32), (), "channel, from 0"))
            if name is Representation.MSA:
                states.append((row, np.arange(len(array), dtype=np.int32), (), "clustered MSA row, from 0"))
            axes = {Representation.PAIR: _PAIR, Representation.MSA: (row, _PAIR[0])}.get(name, _PAIR[:1])
            states.append((str(name), array, (*axes, channel), f"{name} representation"))
        _write_arrays(folder / REPRESENTATIONS_FILE, REPRESENTATIONS, subject, states)
        written.append(REPRESENTATIONS_FILE)
    if prediction.atom37 is not None and prediction.plddt is not None:
        # A column where the target has a gap is no residue of it.
        kept = [place for place, number in enumerate(subject.numbers) if number is not None]
        residues = predicted_residues(
            subject.inputs.encoded.aatype[subject.inputs.columns[kept]],
            prediction.atom37[kept],
            prediction.plddt[kept],
            [number for number in subject.numbers if number is not None],
        )
        write_mmcif(folder / STRUCTURE_MMCIF, residues, name=subject.source.name)
        try:
            write_pdb(folder / STRUCTURE_PDB, residues)
            written.append(STRUCTURE_PDB)
        except PdbRoomError as error:
            LOGGER.warning(f"no {STRUCTURE_PDB} was written: {error}")
        written.append(STRUCTURE_MMCIF)
        if errors is not None:
            # As AlphaFold DB has it: one line, whole ångströms.
            whole = np.rint(errors[np.ix_(kept, kept)]).astype(int).tolist()
            content = [{"predicted_aligned_error": whole, "max_predicted_aligned_error": MAX_ALIGNED_ERROR}]
            with text_output(folder / ALIGNED_ERROR) as text:
                json.dump(content, text, separators=(",", ":"))
            written.append(ALIGNED_ERROR)
        summary["mean_plddt"] = round(float(prediction.plddt.mean()), 3)
        summary["ptm"] = None if prediction.ptm is None else round(prediction.ptm, 5)
        summary["plddt"] = [round(float(value), 2) for value in prediction.plddt]
    write_json(folder / SCORES, summary)
    return [*written, SCORES]


CONTACT_COLUMNS = (
    *("column_i", "column_j", "residue_i", "residue_j", "letter_i", "letter_j"),
    *("probability", "expected_distance"),
)
"""Of contacts.tsv."""


def _contact_cells(subject: PreparedAlignment, prediction: Prediction) -> Iterator[list[str]]:
    """The cells of the lines of contacts.tsv, the likeliest pair first."""
    probabilities, distances = prediction.contact_probability, prediction.expected_distance
    assert probabilities is not None
    assert distances is not None
    named = ["" if number is None else str(number) for number in subject.numbers]
    for i, j in zip(
        *(rows.tolist() for rows in ranked_pairs(probabilities, subject.inputs.columns)), strict=True
    ):
        column_i, column_j = int(subject.inputs.columns[i]), int(subject.inputs.columns[j])
        yield [
            str(column_i + 1),
            str(column_j + 1),
            named[i],
            named[j],
            subject.letters[column_i],
            subject.letters[column_j],
            f"{probabilities[i, j]:.5f}",
            f"{distances[i, j]:.3f}",
        ]


def _write_contacts(folder: Path, subject: PreparedAlignment, prediction: Prediction) -> int:
    assert prediction.contact_probability is not None
    number = write_rr(
        folder / CONTACTS_RR,
        subject.letters,
        prediction.contact_probability,
        target=subject.source.name,
        method=[f"bioattn {__version__}", "probability that CB atoms (CA of glycine) are closer than 8 A"],
        columns=subject.inputs.columns,
    )
    with text_output(folder / CONTACTS_TABLE) as file:
        for cells in (CONTACT_COLUMNS, *_contact_cells(subject, prediction)):
            file.write("\t".join(cells) + "\n")
    return number


def contact_table(subject: PreparedAlignment, prediction: Prediction) -> pd.DataFrame:
    """The contacts of an alignment as contacts.tsv has them."""
    table = pd.DataFrame(list(_contact_cells(subject, prediction)), columns=list(CONTACT_COLUMNS))
    numeric = [name for name in CONTACT_COLUMNS if not name.startswith("letter")]
    table[numeric] = table[numeric].apply(pd.to_numeric)
    return table


_Array = tuple[str, NDArray[Any] | None, Sequence[str], str]
"""Name, values (None where the model has none), names of the axes, and what it is; a scale has no axes."""
_PAIR = ("column_i", "column_j")
_IN_ANGSTROM = ("bin_edge", "expected_distance", "aligned_error")


def _write_arrays(
    path: Path, kind: DatasetKind, subject: PreparedAlignment, arrays: Sequence[_Array]
) -> None:
    """Write arrays over the columns that the model saw."""
    columns = (subject.inputs.columns + 1).astype(np.int32)
    residues = np.array([-1 if number is None else number for number in subject.numbers], np.int32)
    with hdf5_file(path) as file:
        kind.write_attributes(
            file,
            id=subject.source.name,
            target=subject.target,
            sequence=subject.letters,
            model_sha256=subject.model_sha256,
            input_sha256=subject.sha256,
        )
        for name, values, axes, words in (
            *((name, columns, (), "match column of the alignment, from 1") for name in _PAIR),
            ("residue_number", residues, _PAIR[:1], "residue number in the target, -1 where it has a gap"),
            *arrays,
        ):
            if values is not None:
                dataset = put_array(file, name, values)
                for axis, scale in enumerate(axes):
                    dataset.dims[axis].attach_scale(file[scale])
                if not axes:
                    dataset.make_scale(name)
                set_attribute(dataset, "long_name", words)
                if name in _IN_ANGSTROM:
                    set_attribute(dataset, "units", "angstrom")
