"""The kinds of files that molecule models own: model folders, datasets and simulations of molecules."""

from collections.abc import Sequence

from bioattn.io.files import read_json
from bioattn.models.model_kind import model_kind
from bioattn.models.molecule.family import FAMILY
from bioattn.models.molecule.simulation import FORMAT
from bioattn.molecules.dataset import (
    MOLECULE_DATASET,
    describe_molecule_dataset,
    open_molecule_dataset,
    validate_molecule_dataset,
)
from bioattn.simulate.description import INDEX
from bioattn.store.field_kinds import dataset_problems
from bioattn.store.kinds import FileKind, hdf5, json_object


def file_kinds() -> Sequence[FileKind]:
    return (
        model_kind(FAMILY),
        FileKind(
            name="molecule-dataset",
            title="dataset of molecules",
            matches=hdf5(MOLECULE_DATASET.format),
            describe=describe_molecule_dataset,
            read=open_molecule_dataset,
            validate=dataset_problems(validate_molecule_dataset),
        ),
        FileKind(
            name="simulated-molecules",
            title="simulated molecules",
            matches=lambda candidate: (
                json_object(FORMAT)(candidate) or candidate.index(INDEX).get("format") == FORMAT
            ),
            describe=lambda path: read_json(path / INDEX if path.is_dir() else path),
        ),
    )
