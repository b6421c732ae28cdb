"""A simulation written as a folder of input files and the truth; `docs/formats/simulation.md` lists them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bioattn.formats.meme import write_meme
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.simulate.description import INDEX, PROMOTERS_FORMAT
from bioattn.simulate.genome_layout import write_annotation, write_genome
from bioattn.simulate.promoters import SimulatedPromoters
from bioattn.simulate.truth import write_truth

_PLAIN = ("treatments.tsv", "motifs.meme", INDEX)
_PACKED = ("genome.fa", "annotation.gff3", "responses.tsv", "truth.tsv")
"""Files that are compressed with `compress`."""
_OWN_NAMES = {*_PLAIN, *_PACKED, *(f"{name}.gz" for name in _PACKED), f"{INDEX}.run.json"}


def write_simulation(
    folder: Path, simulated: SimulatedPromoters, *, compress: bool = False, force: bool = False
) -> dict[str, Path]:
    """Write all files; the folder appears whole or not at all, and with `force` in the place of an earlier one.

    compress: genome, annotation, responses and truth are gzip and end in `.gz`. Returns the paths by plain names.

    Raises: SettingsError and BioattnError as `check_output_folder`, when the folder holds files that are not a
    simulation's, or when the disk is full.
    """
    check_output_folder(folder, force=force)
    names = {name: name for name in _PLAIN} | {name: f"{name}.gz" if compress else name for name in _PACKED}
    with atomic_folder(folder, _OWN_NAMES) as partial:
        paths = {name: partial / written for name, written in names.items()}
        write_genome(paths["genome.fa"], simulated.genome)
        write_annotation(paths["annotation.gff3"], simulated.genome)
        _write_responses(paths["responses.tsv"], simulated)
        with text_output(paths["treatments.tsv"]) as file:
            file.write("treatment\tagent\n")
            for number, rule in enumerate(simulated.rules, start=1):
                file.write(f"{rule.treatment}\tagent{number}\n")
        write_truth(paths["truth.tsv"], simulated.sites)
        write_meme(paths["motifs.meme"], simulated.motifs)
        write_json(paths[INDEX], _description(simulated))
    return {name: folder / written for name, written in names.items()}


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
        "format": PROMOTERS_FORMAT,
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
