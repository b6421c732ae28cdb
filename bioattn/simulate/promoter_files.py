"""A simulation written as a folder of input files (genome, annotation, responses, treatments) and the truth.

| file | content |
| --- | --- |
| `genome.fa` | chromosomes `chr1`, `chr2`, … |
| `annotation.gff3` | genes on both strands, the promoter window directly before each |
| `responses.tsv` | gene_id, then one column per treatment |
| `treatments.tsv` | treatment, agent (a category per treatment, for models that read features) |
| `truth.tsv` | every planted site (`bioattn.simulate.truth`) |
| `motifs.meme` | the motifs |
| `simulation.json` | the settings and each treatment's rule |

With `compress` genome, annotation, responses and truth are gzip and end in `.gz`.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bioattn.formats.meme import write_meme
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.simulate.genome_layout import write_annotation, write_genome
from bioattn.simulate.promoters import SimulatedPromoters
from bioattn.simulate.truth import write_truth

_PLAIN = ("treatments.tsv", "motifs.meme", "simulation.json")
"""Files that are never compressed."""
_PACKED = ("genome.fa", "annotation.gff3", "responses.tsv", "truth.tsv")
"""Files that are with `compress`."""
_OWN_NAMES = {*_PLAIN, *_PACKED, *(f"{name}.gz" for name in _PACKED), "simulation.json.run.json"}


def write_simulation(
    folder: Path, simulated: SimulatedPromoters, *, compress: bool = False, force: bool = False
) -> dict[str, Path]:
    """Write all files; the folder appears whole or not at all, and with `force` in the place of an earlier one.

    Returns the paths by the names in the module's table.

    Raises: SettingsError and BioattnError as `check_output_folder`, when the folder holds files that are not a
    simulation's, or when the disk is full.
    """
    check_output_folder(folder, force=force)
    with atomic_folder(folder, _OWN_NAMES) as partial:
        written = _write_files(partial, simulated, compress)
    return {name: folder / path.name for name, path in written.items()}


def _write_files(folder: Path, simulated: SimulatedPromoters, compress: bool) -> dict[str, Path]:
    gz = ".gz" if compress else ""
    paths = {name: folder / name for name in _PLAIN} | {name: folder / f"{name}{gz}" for name in _PACKED}
    write_genome(paths["genome.fa"], simulated.genome)
    write_annotation(paths["annotation.gff3"], simulated.genome)
    _write_responses(paths["responses.tsv"], simulated)
    with text_output(paths["treatments.tsv"]) as file:
        file.write("treatment\tagent\n")
        for number, rule in enumerate(simulated.rules, start=1):
            file.write(f"{rule.treatment}\tagent{number}\n")
    write_truth(paths["truth.tsv"], simulated.sites)
    write_meme(paths["motifs.meme"], simulated.motifs)
    write_json(paths["simulation.json"], _description(simulated))
    return paths


def _write_responses(path: Path, simulated: SimulatedPromoters) -> None:
    spec = ".0f" if simulated.settings.task == "binary" else ".3f"
    with text_output(path) as file:
        file.write("\t".join(["gene_id", *(rule.treatment for rule in simulated.rules)]) + "\n")
        for gene_id, row in zip(simulated.gene_ids, simulated.responses.tolist(), strict=True):
            file.write("\t".join([gene_id, *(format(value, spec) for value in row)]) + "\n")


def _description(simulated: SimulatedPromoters) -> dict[str, Any]:
    settings = asdict(simulated.settings)
    settings["background"] = simulated.settings.background.name
    return {
        "format": "bioattn-simulated-promoters",
        "format_version": 1,
        "settings": settings,
        "smallest_motif_edit_distance": simulated.motif_distance,
        "motifs": {
            motif.name: {"consensus": motif.consensus, "bits": round(motif.information, 2)}
            for motif in simulated.motifs
        },
        "treatments": {
            rule.treatment: {"rule": rule.rule, "motifs": list(rule.motifs), "effect": rule.effect}
            for rule in simulated.rules
        },
    }
