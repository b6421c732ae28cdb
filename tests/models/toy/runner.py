"""A trained toy model."""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from bioattn.models.toy.model import SITE, ToyModel

from bioattn.formats.nucleotides import encode
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.inputs import path_in, sequences_in
from bioattn.io.files import sha256_of
from bioattn.models.model_folder import WEIGHTS, load_weights, read_model_config
from bioattn.store.contents import Collector, Held
from bioattn.store.reader import Attention
from bioattn.store.schema import AttentionOptions


class ToyRunner:
    """What `family.load` gives."""

    family = "toy"

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.model = ToyModel(**read_model_config(folder, "toy")["architecture"])
        load_weights(self.model, folder / WEIGHTS)
        self.path = folder
        self.model.to(device).eval()
        self.device = device
        self.sites = {SITE.name: SITE}
        self.sha256 = sha256_of(folder / WEIGHTS)

    def predict(self, inputs: Any) -> pd.DataFrame:
        """Calls of each sequence, as 0 and 1, by its id."""
        held = self._results(inputs, [])
        lengths = held.samples.columns["length"]
        called = [held.read("calls", "values", [row, slice(int(n))]) for row, n in enumerate(lengths)]
        texts = ["".join(map(str, row)) for row in called]
        return pd.DataFrame({"calls": texts}, index=held.samples.ids)

    def attention(self, inputs: Any) -> Attention:
        """Which bases each base looks at."""
        return Attention(self._results(inputs, choose_sites(self.sites, ["*"])))

    def _results(self, inputs: Any, sites: list[str]) -> Held:
        from bioattn.models.toy.data import read_sequences
        from bioattn.models.toy.run import Sequences, toy_work

        path = path_in(inputs, "ACGTN")
        if path is not None:
            source = Sequences(path, sha256_of(path), read_sequences(path))
        else:
            given = sequences_in(inputs)
            codes = dict(zip(given.ids, map(encode, given.sequences), strict=True))
            source = Sequences(Path("the sequences"), "", codes)
        work, layout = toy_work(self, source, AttentionOptions(), sites)
        kept = Collector(layout)
        for block in work.blocks(layout):
            kept.append(block)
        return kept.contents()
