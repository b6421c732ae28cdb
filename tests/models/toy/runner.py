"""A trained toy model."""

from pathlib import Path

import torch
from bioattn.models.toy.model import SITE, ToyModel

from bioattn.io.files import sha256_of
from bioattn.models.model_folder import WEIGHTS, load_weights, read_model_config


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
