"""`bioattn run phyloformer`: its settings, and the way to the runner."""

from dataclasses import MISSING, dataclass
from pathlib import Path

from bioattn.errors import SettingsError
from bioattn.models.running import Running, RunReport
from bioattn.models.settings import (
    Settings,
    Writes,
    argument,
    device_option,
    force_option,
    option,
    output_option,
    resume_option,
    shard_option,
    threads_option,
)
from bioattn.system.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerRun(Settings):
    """Estimate the evolutionary distances of the proteins of an alignment, and trees of them.

    Writes distances.tsv (expected substitutions per site), nj.nwk (neighbour joining), bme.nwk (balanced minimum
    evolution) and phylogeny.json. With several alignments each has its own folder, and a failure does not stop
    the others. Any letter but the 20 amino acids counts as unknown. Trees need scikit-bio (extra phylo).
    """

    alignment: Path = argument(
        "IN", "Alignment of any format and packing, or `-`; or a folder or a list of alignments.", recorded=""
    )
    output: Path = output_option("Folder of the results; one folder each for several inputs.")
    parameters: Path = option("Published parameters, such as pf.ckpt.", default=MISSING, recorded="")
    attention: Path | None = option("Also write attention here as HDF5.", metavar="FILE", writes=Writes.OTHER)
    sites: tuple[str, ...] = option(
        "Attention sites, for example 'phyloformer.*.over_sites'; can be repeated [default: all].",
        default=(),
        metavar="PATTERN",
    )
    device: Device = device_option()
    threads: int | None = threads_option()
    shard: str | None = shard_option()
    resume: bool = resume_option()
    force: bool = force_option()


def run(settings: PhyloformerRun, running: Running) -> RunReport:
    """Run all alignments. Raises: as `run_folders`, and for the settings."""
    from bioattn.inference.alignment_inputs import find_alignments
    from bioattn.inference.folder_paths import AttentionOutput, check_run_paths, holds_result
    from bioattn.models.phyloformer.phylogeny import PHYLOGENY
    from bioattn.models.phyloformer.trees import require_scikit_bio
    from bioattn.store.schema import AttentionOptions
    from bioattn.system.shard import parse_shard

    output, attention = settings.output, settings.attention
    part = None if settings.shard is None else parse_shard(settings.shard)
    if settings.sites and attention is None:
        raise SettingsError("--sites speaks of attention; give --attention FILE too")
    require_scikit_bio()
    sources, several = find_alignments(settings.alignment)
    check_run_paths(sources, output, several=several, attention=attention, model=settings.parameters)
    if not several:
        holds_result(output, PHYLOGENY.record, resume=settings.resume, force=settings.force)

    # What loads torch, which takes seconds, comes after the mistakes that need none of it.
    from bioattn.inference.folders import folder_report, run_folders
    from bioattn.models.phyloformer.folder import load_phyloformer
    from bioattn.models.phyloformer.inference.runner import PhylogenyRunner

    device = running.device(settings.device, settings.threads)
    loaded = running.loaded or load_phyloformer(settings.parameters, device)
    wanted = AttentionOptions(sites=settings.sites or ("*",))
    summary = run_folders(
        PhylogenyRunner(loaded),
        sources,
        output,
        several=several,
        attention=None if attention is None else AttentionOutput(path=attention, options=wanted),
        shard=part,
        resume=settings.resume,
        force=settings.force,
        progress=running.progress,
    )
    return folder_report(
        summary,
        "alignment",
        sources if part is None else sources[part.slice(len(sources))],
        output,
        several=several,
        sharded=part is not None,
        attention=attention,
        figures={
            "model": {"file": loaded.path.name, "sha256": loaded.sha256},
            "device": str(device),
        },
    )
