"""Running a toy model: calls as text, attention over bases; and the kind of files of calls."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from bioattn.models.toy.family import FAMILY, ToyConfig
from bioattn.models.toy.model import PADDING, ToyModel, read_sequences
from torch.nn.utils.rnn import pad_sequence

from bioattn.attention.site import Axis
from bioattn.errors import FormatError
from bioattn.formats.nucleotides import encode
from bioattn.inference.inputs import Source, path_in, sequences_in
from bioattn.inference.run import attention_work, write_attention_file
from bioattn.io.files import read_lines, text_output
from bioattn.models.file_kinds import model_kind
from bioattn.models.model_folder import LoadedModel
from bioattn.models.running import RunReport
from bioattn.store.kinds import FileKind, starts_with
from bioattn.store.reader import Attention
from bioattn.store.schema import Array, AttentionOptions, Column, GroupLayout, Samples

FIRST_LINE = "#toy-calls"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedToy(LoadedModel[ToyModel, ToyConfig]):
    """Calls each base of sequences new or seen before."""

    family = "toy"

    def predict(self, inputs):
        work, layout = toy_work(self, inputs, AttentionOptions(), [])
        held = work.collect(layout)
        called = held.read("calls", "values", [slice(None)] * 2)
        texts = [
            "".join(map(str, row[:n])) for row, n in zip(called, held.samples.columns["length"], strict=True)
        ]
        return pd.DataFrame({"calls": texts}, index=held.samples.ids)

    def attention(self, inputs):
        work, layout = toy_work(self, inputs, AttentionOptions(), list(self.sites))
        return Attention(work.collect(layout))


def load_toy(folder, device):
    return LoadedToy.of_folder(folder, device, ToyConfig, ToyModel)


def toy_work(loaded, inputs, options, sites, batch_size=3):
    """How sequences are called, batch by batch, and the layout of the results."""
    path = path_in(inputs, "ACGTN")
    codes = read_sequences(path) if path else dict(zip(*sequences_in(inputs)[:2], strict=True))
    codes = {name: encode(each) if isinstance(each, str) else each for name, each in codes.items()}

    def forward(sequences):
        codes_BL = pad_sequence([torch.from_numpy(each) for each in sequences], True, PADDING)
        called_BL = loaded.model(codes_BL.to(loaded.device)) > 0
        return {"calls": {"values": called_BL.cpu().numpy().astype(np.uint8)}}

    place = Axis("place", "base", size=max(map(len, codes.values())), lengths="length")
    array = Array("values", "uint8", ("place",), "1 for a base that was called seen before")
    lengths = np.array([len(each) for each in codes.values()], np.int32)
    return attention_work(
        loaded,
        Source(list(codes.values()), Samples({"id": list(codes), "length": lengths})),
        forward,
        options,
        sites=sites,
        noun="sequence",
        columns=[Column("length", "int32", "bases")],
        more=[GroupLayout(path="calls", axes=(place,), arrays=(array,))],
        batch_size=batch_size,
    )


def run(settings, running):
    table = load_toy(settings.model, running.device(settings.device, settings.threads)).predict(
        settings.sequences
    )
    with text_output(settings.output) as calls:
        calls.write(FIRST_LINE + "\n")
        calls.writelines(f"{name}\t{called}\n" for name, called in table["calls"].items())
    return RunReport(f"wrote {settings.output}", outputs=[settings.output])


def export_attention(settings, running):
    loaded = load_toy(settings.model, running.device(settings.device, settings.threads))
    options, sites = settings.options(), list(loaded.sites)
    work, layout = toy_work(loaded, settings.sequences, options, sites, settings.batch_size)
    return write_attention_file(settings, running, work, layout, smaller="give fewer sequences")


def describe_calls(path):
    """Raises: FormatError naming a line that has no calls."""
    rows = [(number, line.partition("\t")[2]) for number, line in list(read_lines(path))[1:]]
    for number, called in rows:
        if not called or set(called) - {"0", "1"}:
            raise FormatError(f"{path}:{number}: {called!r} are no calls; an id, a tab, 0s and 1s are needed")
    return {"sequences": len(rows)}


def file_kinds():
    first = starts_with(FIRST_LINE.encode())
    calls = FileKind(name="toy-calls", title="calls of a toy model", matches=first, describe=describe_calls)
    return [model_kind(FAMILY), calls]
