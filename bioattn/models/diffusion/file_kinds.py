"""The kinds of files that diffusion models own: their folders."""

from collections.abc import Sequence

from bioattn.models.diffusion.family import FAMILY
from bioattn.models.model_kind import model_kind
from bioattn.store.kinds import FileKind


def file_kinds() -> Sequence[FileKind]:
    """The kinds that this room registers."""
    return (model_kind(FAMILY, title="diffusion model folder"),)
