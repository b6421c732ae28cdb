"""What `inspect` says of folders that are no model: predictions, tracks, motifs, arrays, simulations, parts."""

import itertools
import math
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_json
from bioattn.store.array_folder import RECORD as ARRAY_RECORD
from bioattn.store.array_folder import inspect_arrays
from bioattn.store.attribution_schema import ATTRIBUTION_PARTS_FORMAT
from bioattn.store.description import Description, describe, some
from bioattn.store.head_folder import RECORD as HEAD_RECORD
from bioattn.store.head_folder import inspect_heads
from bioattn.store.model_inspection import inspect_model
from bioattn.store.motif_folder import RECORD as MOTIF_RECORD
from bioattn.store.motif_folder import inspect_motifs
from bioattn.store.shard_folder import SHARD_FILE, shard_figures
from bioattn.store.shard_record import SHARD_INPUTS, inputs_of
from bioattn.store.simulation_inspection import SIMULATIONS, check_simulation_files, simulation_figures
from bioattn.store.track_folder import RECORD, inspect_tracks

_OF_CONTACTS: tuple[str, ...] = ("contacts.rr", "contacts.tsv", "distogram.h5")
_OF_STRUCTURES = ("structure.cif",)


def inspect_folder(path: Path) -> Description:
    """A model, a prediction or several, tracks, motifs, a simulation, or an attention file under way.

    Raises: BioattnError when it is none of them; FormatError when it is damaged or a file is missing.
    """
    if (path / "config.json").is_file() and (path / "model.safetensors").is_file():
        return inspect_model(path)
    if (path / "job.json").is_file():
        job = read_json(path / "job.json")
        whole = len(list(path.glob("part-*.h5")))
        samples = job.get("num_promoters", job.get("num_alignments", 0))
        if "num_promoters" in job and SHARD_INPUTS in job:
            samples = inputs_of(job)
        parts = math.ceil(samples / max(1, job.get("part_samples", 1)))
        kind = "attribution-parts" if job.get("format") == ATTRIBUTION_PARTS_FORMAT else "attention-parts"
        return describe(kind, complete_parts=whole, all_parts=parts, **job)
    if (path / "scores.json").is_file():
        return _prediction(path)
    names = sorted(each.parent.name for each in path.glob("*/scores.json"))
    if names or (path / SHARD_FILE).is_file():
        return describe("predictions", **shard_figures(path), predictions=len(names), alignments=some(names))
    if (path / RECORD).is_file():
        return inspect_tracks(path)
    if (path / MOTIF_RECORD).is_file():
        return inspect_motifs(path)
    if (path / HEAD_RECORD).is_file():
        return inspect_heads(path)
    if (path / ARRAY_RECORD).is_file():
        return inspect_arrays(path)
    if (path / "simulation.json").is_file():
        return _simulation(path)
    if is_prediction(path):
        raise FormatError(f"{path}: a prediction without its scores.json; run it again with another --output")
    for one, other in itertools.permutations(("config.json", "model.safetensors")):
        if (path / one).is_file():
            raise FormatError(f"{path}: a model folder without {other}; copy or make it again")
    raise BioattnError(
        f"{path}: is a folder that bioattn did not make (no model, prediction, tracks, motifs, heads, attribution "
        "arrays, simulation or attention under way)"
    )


def is_prediction(path: Path) -> bool:
    """Whether a folder holds a prediction, or what is left of one."""
    return any((path / name).is_file() for name in ("scores.json", *_OF_CONTACTS, *_OF_STRUCTURES))


def _simulation(path: Path) -> Description:
    content = read_json(path / "simulation.json")
    kind = SIMULATIONS.get(content.get("format", "")) if isinstance(content, dict) else None
    if kind is None:
        raise FormatError(f"{path / 'simulation.json'}: not the settings of a simulation of bioattn")
    figures = simulation_figures(path / "simulation.json", content)
    check_simulation_files(path, content)
    return describe(kind, **figures)


def _prediction(path: Path) -> Description:
    scores = read_json(path / "scores.json")
    if not isinstance(scores, dict) or scores.get("format") != "bioattn-prediction":
        raise FormatError(f"{path / 'scores.json'}: not the scores of a prediction of bioattn")
    expected = _OF_CONTACTS if "contact_pairs" in scores else ()
    expected += _OF_STRUCTURES if "plddt" in scores else ()
    missing = [name for name in expected if not (path / name).is_file()]
    if missing:
        raise FormatError(
            f"{path}: {', '.join(missing)} of the prediction is missing; run it again with --force"
        )
    kept = {name: value for name, value in scores.items() if name not in ("format", "plddt", "settings")}
    return describe(
        "prediction", **kept, files=sorted(each.name for each in path.iterdir() if each.is_file())
    )
