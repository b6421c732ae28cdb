"""Published parameters of Phyloformer: a PyTorch checkpoint with the original's names, read into our model."""

import re
from pathlib import Path

import torch
from torch import Tensor

from bioattn.errors import FormatError, SettingsError
from bioattn.io.checkpoint import load_state_dict
from bioattn.models.phyloformer.config import LETTERS, PhyloformerConfig, PhylogenyAlphabet
from bioattn.models.phyloformer.model import Phyloformer

_NAMES = {
    "embedding_block.0": "embed",
    "row_attention": "over_sites",
    "col_attention": "over_pairs",
    "k_proj": "project_key",
    "q_proj": "project_query",
    "v_proj": "project_value",
    "out_proj": "project_output",
    "row_norm": "normalise_sites",
    "col_norm": "normalise_pairs",
    "ffn_norm": "normalise",
    "ffn.0": "expand",
    "ffn.3": "contract",
    "pwFNN.0": "project_distance",
    "attention_blocks": "blocks",
}
"""Names of the original's modules, and ours; none holds another."""
_PAIRS = "seq2pair"
"""A table of pairs for one number of sequences, which is no parameter."""
_NAME = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in _NAMES))


def read_parameters(path: Path) -> Phyloformer:
    """The model that a checkpoint holds, in evaluation mode on the CPU.

    Raises: FormatError when it is no checkpoint of Phyloformer, holds other objects than tensors, or numbers that
    are not finite; BioattnError when it cannot be read.
    """
    tensors = {
        _NAME.sub(lambda found: _NAMES[found[0]], name): tensor
        for name, tensor in load_state_dict(path).items()
        if name != _PAIRS
    }
    try:
        channels, letters = tensors["embed.weight"].shape[:2]
        heads = len(tensors["blocks.0.over_sites.project_key.weight"])
        blocks = len({name.split(".")[1] for name in tensors if name.startswith("blocks.")})
        config = PhyloformerConfig(num_blocks=blocks, num_heads=heads, channels=channels, likelihood=False)
    except (KeyError, TypeError, ValueError, SettingsError) as error:
        raise FormatError(f"{path}: no parameters of Phyloformer ({error})") from error
    if letters != len(LETTERS[PhylogenyAlphabet.PROTEIN]):
        raise FormatError(f"{path}: reads an alphabet of {letters} letters, that of proteins is needed")
    model = Phyloformer(config)
    wanted = model.state_dict()
    if missing := sorted(wanted.keys() - tensors.keys()):
        raise FormatError(f"{path}: the array {missing[0]} is missing from parameters of Phyloformer")
    if unknown := sorted(tensors.keys() - wanted.keys()):
        raise FormatError(f"{path}: the array {unknown[0]} is none of Phyloformer's parameters")
    model.load_state_dict({name: _fitted(path, name, tensors[name], wanted[name]) for name in wanted})
    return model.eval()


def _fitted(path: Path, name: str, stored: Tensor, wanted: Tensor) -> Tensor:
    """A linear layer of ours from what may be a convolution of width 1."""
    while stored.dim() > wanted.dim() and stored.shape[-1] == 1:
        stored = stored.squeeze(-1)
    if stored.shape != wanted.shape:
        raise FormatError(
            f"{path}: the array {name} has shape {tuple(stored.shape)}, beside the others "
            f"{tuple(wanted.shape)} is needed"
        )
    if not bool(torch.isfinite(stored).all()):
        raise FormatError(f"{path}: the array {name} holds NaN or infinite values")
    return stored.float()
