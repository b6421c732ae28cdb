"""Every family on a GPU, through the commands: it writes what the CPU writes. `make test-gpu` runs this."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from tests.making import bioattn

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

GPU = "cuda"
SETTINGS = Path(__file__).parents[2] / "data" / "settings"
TRAINING = "[training]\nsteps = 20\nsteps_per_round = 10\nbatch_size = 8\n"
PROMOTER = "[model]\nchannels = 16\nMORE[training]\nepochs = 2\nbatch_size = 16\n"
EVOFORMER = "[model]\nmsa_channels = 16\nnum_blocks = 1\n[training]\nsteps = 4\nsteps_per_round = 2\n"
TRANSLATION = f"[model]\nchannels = 16\nnum_heads = 2\n{TRAINING}"
DIFFUSION = f"[model]\nchannels = 16\nstages = 2\n{TRAINING}"
LANGUAGE = (
    f"[model]\nlayers = 2\nchannels = 16\nnum_heads = 2\ncontext = 40\n{TRAINING}validation_windows = 8\n"
)

PROMOTERS = """
simulate promoters -o made --genes 240 --treatments 3 --length 120
prepare promoters made/genome.fa made/annotation.gff3 --upstream 120 --downstream 0 --flank 20 -o promoters.fa
prepare dataset promoters.fa made/responses.tsv --treatment-table made/treatments.tsv -o x.dataset.h5
"""
RUN_PROMOTER = """
run promoter model promoters.fa -o responses.tsv
export attention model promoters.fa -o attention.h5
export attention model promoters.fa -o norms.h5 --value-weighted
explain attribution model promoters.fa -o mutated.h5
explain attribution model promoters.fa -o gradients.h5 --method integrated-gradients
explain heads model x.dataset.h5 -o heads
"""
FAMILIES = """
simulate msa -o made --families 3 --depth 40:50
prepare contacts made/PAIRS.tsv -o x.dataset.h5
"""
RUN_EVOFORMER = """
run evoformer made/msa/simulated000000.a3m --model model -o results --attention attention.h5
explain heads model x.dataset.h5 -o heads --split train
"""
WORDS = f"{PROMOTERS}prepare language promoters.fa -o words.dataset.h5 --split record --alphabet dna"
RUN_LANGUAGE = """
run language model promoters.fa -o scores.tsv --embeddings embeddings.h5
export attention model promoters.fa -o attention.h5
explain heads model words.dataset.h5 -o heads
"""
PAIRS = """
simulate translation --task reverse-complement --pairs 200 --longest 12 -o made
prepare translation made --source-alphabet dna --target-alphabet dna --split record -o x.dataset.h5
"""
SCORED = "run translation model made/source.fa --targets made/target.fa -o scores.tsv"
RUN_TRANSLATION = f"""
{SCORED}
run translation model made/source.fa -o outputs.fa --length 12 --beam 2
export attention model made/source.fa --targets made/target.fa -o attention.h5
explain heads model x.dataset.h5 -o heads
explain check model x.dataset.h5 -o check.json --samples 20
"""
CASCADES = "simulate translation --task cascade --genes 8 --shortest 4 --longest 6 --pairs 60 -o made"
TREES = "simulate trees -o made --count 20 --sequences 4-6 --sites 40"
MOLECULES = """
simulate molecules --molecules 100 -o made
prepare molecules made/molecules.tsv --split random -o x.dataset.h5
"""
RUN_MOLECULE = """
run molecule model made/molecules.tsv -o values.tsv
export attention model made/molecules.tsv -o attention.h5
"""
JOBS = {
    **{
        f"promoter-{shape}": (
            PROMOTERS,
            PROMOTER.replace("MORE", "concat_pools = [4, 4]\n" if shape == "concat" else ""),
            f"promoter x.dataset.h5 --conditioning {shape}",
            runs,
        )
        for shape, runs in (
            ("cross", f"{RUN_PROMOTER}explain check model promoters.fa --dataset x.dataset.h5 -o check.json"),
            ("cross-all", RUN_PROMOTER),
            ("film", "run promoter model promoters.fa -o responses.tsv"),
            ("concat", "run promoter model promoters.fa -o responses.tsv"),
        )
    },
    "evoformer": (FAMILIES, EVOFORMER, "evoformer x.dataset.h5", RUN_EVOFORMER),
    **{
        f"language-{shape}": (WORDS, LANGUAGE, f"language words.dataset.h5 --shape {shape}", runs)
        for shape, runs in (
            ("encoder", RUN_LANGUAGE),
            ("decoder", f"{RUN_LANGUAGE}\ngenerate language model -o new.fa -n 4 --max-length 20"),
            ("encoder-decoder", RUN_LANGUAGE),
        )
    },
    **{
        f"translation-{shape}": (
            PAIRS,
            TRANSLATION,
            f"translation x.dataset.h5 --architecture {shape}",
            SCORED if shape == "recurrent" else RUN_TRANSLATION,
        )
        for shape in ("recurrent", "recurrent-attention", "transformer")
    },
    "translation-turing-machine": (
        PAIRS,
        f"[model]\nchannels = 16\nslots = 24\n{TRAINING}",
        "translation x.dataset.h5 --architecture turing-machine",
        f"{SCORED}\nexport attention model made/source.fa --targets made/target.fa -o attention.h5",
    ),
    "memory": (
        CASCADES,
        TRAINING,
        "memory made",
        "run memory model made -o answers.tsv --attention attention.h5",
    ),
    "phyloformer": (
        TREES,
        (SETTINGS / "phyloformer-tiny.toml").read_text(),
        "phyloformer made/PAIRS.tsv",
        "run phyloformer made/alignments --model model -o results --attention attention.h5",
    ),
    "diffusion": (
        PROMOTERS,
        DIFFUSION,
        "diffusion x.dataset.h5",
        "generate promoters model -o designs.fa -n 4 --steps 4 --attention attention.h5",
    ),
    **{
        f"molecule-{encoder}": (
            MOLECULES,
            f"[model]\nchannels = 16\nslots = 16\nradius = 1\n{TRAINING}",
            f"molecule x.dataset.h5 --encoder {encoder}",
            RUN_MOLECULE,
        )
        for encoder in ("fingerprint", "attention")
    },
}
"""Of each: what makes the inputs, the settings, what trains, what runs the model."""
DRAWN = ("diffusion",)
"""What it draws depends on the last bits, and its maps on what it draws."""


def run(text: str, *words: str) -> None:
    for line in filter(None, text.splitlines()):
        assert bioattn(*line.split(), *words, "--quiet") == 0, line


@pytest.mark.parametrize("name", JOBS)
def test_it_writes_what_the_cpu_writes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs, settings, train, runs = JOBS[name]
    run(inputs)
    Path("settings.toml").write_text(settings)
    run(f"train {train} --config settings.toml -o model", "--device", GPU)
    given = set(Path().iterdir())
    for device in (GPU, "cpu"):
        run(runs, "--device", device)
        Path(device).mkdir()
        for made in set(Path().iterdir()) - given - {Path(GPU), Path("cpu")}:
            made.rename(Path(device) / made.name)
    files = [path.relative_to("cpu") for path in Path("cpu").rglob("*") if path.is_file()]
    assert files
    for file in files:
        one, other = Path("cpu") / file, Path(GPU) / file
        assert other.is_file(), file
        if file.suffix == ".tsv":
            # By name or place: contacts are sorted by probability, which many share.
            one, other = (pd.read_csv(each, sep="\t") for each in (one, other))
            one, other = (
                each.sort_values(list(each.columns[:2]), ignore_index=True) for each in (one, other)
            )
            pd.testing.assert_frame_equal(other, one, rtol=2e-3, atol=2e-3, check_dtype=False)
        if file.suffix == ".h5" and name not in DRAWN:
            assert numbers(other).keys() == numbers(one).keys()
            for key, values in numbers(one).items():
                np.testing.assert_allclose(
                    numbers(other)[key], values, rtol=2e-3, atol=2e-3, err_msg=f"{file} {key}"
                )


@pytest.mark.parametrize(
    "name", ["promoter-cross", "evoformer", "language-decoder", "translation-transformer"]
)
def test_bf16_trains(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs, settings, train, _ = JOBS[name]
    run(inputs)
    Path("settings.toml").write_text(f"{settings}precision = 'bf16'\n")
    for device in (GPU, "cpu"):
        run(f"train {train} --config settings.toml -o {device}", "--device", device)
    one, other = (pd.read_csv(Path(each) / "history.csv") for each in ("cpu", GPU))
    losses = [column for column in one.columns if "loss" in column]
    assert losses
    np.testing.assert_allclose(other[losses], one[losses], rtol=0.1)


def numbers(path: Path) -> dict[str, np.ndarray]:
    """All numbers of an HDF5 file with a fraction, by name."""
    found = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(visit)
    return found
