"""Commands of Phyloformer models: their settings, and the way to what carries them out."""

from dataclasses import MISSING, dataclass
from pathlib import Path

from bioattn.errors import SettingsError
from bioattn.io.settings import (
    Settings,
    Writes,
    argument,
    force_option,
    option,
    output_option,
    resume_option,
    shard_option,
    threads_option,
)
from bioattn.models.attention_settings import ONLY_PROMOTERS, ExportAttention
from bioattn.models.phyloformer.config import PhylogenyAlphabet
from bioattn.models.running import Running, RunReport, loaded_model
from bioattn.system.device import Device, device_option
from bioattn.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSimulation(Settings):
    """Make alignments of proteins or DNA with their true trees.

    Writes PAIRS.tsv, alignments/ (FASTA), trees/ (Newick) and simulation.json into the folder OUTPUT; the same
    options and seed give the same bytes. Trees are of a birth-death process with rates that drift. Proteins evolve
    by LG, DNA by a general time-reversible model drawn for each alignment, sites with Gamma-distributed rates.
    bioattn train phyloformer OUTPUT/PAIRS.tsv learns from them.
    """

    output: Path = output_option("Folder to write.", Writes.FOLDER)
    count: int = option("Alignments.", default=1000, min=1)
    alphabet: PhylogenyAlphabet = option("What the sequences are.", default=PhylogenyAlphabet.PROTEIN)
    sequences: str = option("Sequences of an alignment.", default="20", metavar="N|MIN-MAX")
    sites: str = option("Columns of an alignment.", default="200", metavar="N|MIN-MAX")
    deletions: float = option(
        "Deletions for each substitution, 3 sites long on average.", default=0.0, min=0, max=1
    )
    seed: int = option("Seed of every random choice.", default=0, min=0)
    force: bool = force_option()


def number_range(text: str, flag: str, least: int) -> tuple[int, int]:
    """Both ends of `3-7`, or the one number twice. Raises: SettingsError when it is none, or less than `least`."""
    low, _, high = text.partition("-")
    try:
        ends = int(low), int(high or low)
    except ValueError:
        ends = 0, 0
    if not least <= ends[0] <= ends[1]:
        raise SettingsError(f"{flag} {text}: a number from {least} on, or two as 20-50, are needed")
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerRun(Settings):
    """Estimate the evolutionary distances of the sequences of an alignment, and trees of them.

    Writes distances.tsv (expected substitutions per site), nj.nwk (neighbour joining), bme.nwk (balanced minimum
    evolution) and phylogeny.json. With several alignments each has its own folder, and a failure does not stop
    the others. Letters other than amino acids, or bases, count as unknown. Trees need scikit-bio (extra phylo).
    """

    alignment: Path = argument(
        "IN", "Alignment of any format and packing, or `-`; or a folder or a list of alignments.", recorded=""
    )
    output: Path = output_option("Folder of the results; one folder each for several inputs.")
    model: Path = option(
        "The model: a folder (`bioattn train phyloformer`), or published parameters such as pf.ckpt.",
        "--model",
        "--parameters",
        default=MISSING,
        metavar="PATH",
        recorded="",
    )
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


def simulate(settings: TreeSimulation, running: Running) -> RunReport:
    from bioattn.models.phyloformer.simulation import write_simulation
    from bioattn.simulate.families import PAIRS

    write_simulation(settings, running.progress)
    pairs = settings.output / PAIRS
    return RunReport(
        sentences=[
            f"wrote {settings.output}: {counted(settings.count, 'alignment')} with true trees",
            f"next: bioattn train phyloformer {pairs} --alphabet {settings.alphabet} -o model",
        ],
        outputs=[settings.output],
    )


def run(settings: PhyloformerRun, running: Running) -> RunReport:
    """Run all alignments. Raises: as `run_folders`, and for the settings."""
    from bioattn.inference.alignment_inputs import find_alignments
    from bioattn.inference.folder_paths import AttentionOutput, check_run_paths, holds_result
    from bioattn.models.phyloformer.phylogeny import PHYLOGENY
    from bioattn.models.phyloformer.trees import require_scikit_bio
    from bioattn.store.schema import AttentionOptions
    from bioattn.system.shard import parse_shard

    output, attention = settings.output, settings.attention
    if settings.shard is not None:
        parse_shard(settings.shard)
    if settings.sites and attention is None:
        raise SettingsError("--sites speaks of attention; give --attention FILE too")
    require_scikit_bio()
    sources, several = find_alignments(settings.alignment)
    check_run_paths(sources, output, several=several, attention=attention, model=settings.model)
    if not several:
        holds_result(output, PHYLOGENY.record, resume=settings.resume, force=settings.force)

    # What loads torch, which takes seconds, comes after the mistakes that need none of it.
    from bioattn.inference.folders import report_folders
    from bioattn.models.phyloformer.folder import load_phyloformer
    from bioattn.models.phyloformer.inference.runner import PhylogenyRunner

    device = running.device(settings.device, settings.threads)
    loaded = running.loaded or load_phyloformer(settings.model, device)
    wanted = AttentionOptions(sites=settings.sites or ("*",))
    return report_folders(
        PhylogenyRunner(loaded),
        settings,
        sources,
        several=several,
        attention=None if attention is None else AttentionOutput(path=attention, options=wanted),
        figures={"model": {"file": loaded.path.name, "sha256": loaded.sha256}, "device": str(device)},
    )


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    """Write the attention over alignments alone. Raises: as `result_file`."""
    from bioattn.inference.alignment_inputs import find_alignments
    from bioattn.inference.attention_receiver import choose_sites
    from bioattn.inference.folders import AttentionWriter
    from bioattn.models.phyloformer.folder import load_phyloformer
    from bioattn.models.phyloformer.inference.runner import PhylogenyRunner
    from bioattn.store.writer import result_file
    from bioattn.system.signals import stop_on_signals

    settings.refuse(
        (*ONLY_PROMOTERS, "window", "targets", "batch_size", "value_weighted", "shard"), "Phyloformer models"
    )
    sources, _ = find_alignments(settings.sequences)
    runner = PhylogenyRunner(loaded_model(settings, running, load_phyloformer))
    options = settings.options()
    layout = runner.layout(options)
    of_file = {**options.as_json(choose_sites(runner.sites, options.sites)), **runner.settings_json()}
    with (
        stop_on_signals() as stop,
        result_file(
            settings.output,
            layout,
            len(sources),
            settings=of_file,
            resume=settings.resume,
            force=settings.force,
        ) as writer,
    ):
        attention = AttentionWriter(settings.output, writer, layout, runner.sites)
        for source in [source for source in sources if source.name not in attention.ids]:
            stop.check()
            runner.distances(runner.prepare(source), source, attention)
    return RunReport(
        sentences=[f"wrote {settings.output}: attention of {counted(len(sources), 'alignment')}"],
        outputs=[settings.output],
        figures={"alignments": len(sources)},
    )
