"""What `frozen.py` runs and looks at: commands, the files whose contents stay, and figures computed from files.

Edit here when a command line or the name of a file changes; `frozen.py` has the names inside files (`RENAMED`).
"""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.house import make_language_model


class Step(NamedTuple):
    """Some commands, and what stays of what they leave."""

    commands: str
    """A command in each line, without `bioattn`."""
    contents: str = ""
    """Files and folders whose contents stay, separated by spaces."""
    figures: Callable[[], dict[str, float]] = dict
    """Computes figures from what the commands left."""
    prepare: Callable[[], object] = dict
    """Makes inputs before the commands run."""
    needs: str = ""
    """A path without which the step is left out."""


CPU = "--threads 1 --device cpu"
EVOFORMERS = ("evoformer-contacts", "evoformer-contacts-covariances")
SIMULATED = ("simulated000000", "simulated000001", "simulated000002")
REAL = ("PF00018_2O9S_A", "PF00542_1CTF_A")


def contact_steps() -> dict[str, Step]:
    """Contacts of the shipped models for simulated and real families."""
    steps = {}
    for model in EVOFORMERS:
        for name in SIMULATED + REAL:
            real = name in REAL
            path = f"shared/data/msa_structure/msa/{name}.fasta" if real else f"data/families/msa/{name}.a3m"
            out = f"{model}.{name}"
            kept = name == SIMULATED[0]
            steps[f"contacts.{out}"] = Step(
                f"run evoformer {path} --model data/models/{model} -o {out} {CPU}",
                contents=f"{out}/contacts.tsv {out}/contacts.rr {out}/distogram.h5" if kept else "",
                figures=lambda out=out, name=name: {"P@L": contact_precision(out, name)},
                needs="shared/data" if real else "",
            )
    return steps


def contact_precision(out: str, name: str) -> float:
    """Share of the L most probable pairs, six apart or more, that are contacts; L: columns with a residue."""
    if name in REAL:
        mapping = pd.read_csv(f"shared/data/msa_structure/mapping/{name}.tsv", sep="\t")
        atoms = mapping[["cb_x", "cb_y", "cb_z"]].to_numpy()
        columns = mapping["msa_column"].to_numpy() + 1
        near = np.argwhere(np.linalg.norm(atoms[:, None] - atoms, axis=-1) < 8)
        truth = {(columns[i], columns[j]) for i, j in near}
    else:
        table = pd.read_csv(f"data/families/contacts/{name}.tsv", sep="\t")
        columns = np.arange(len(sequences(f"data/families/msa/{name}.a3m")[0]))
        truth = set(zip(table["column_i"], table["column_j"], strict=True))
    predicted = pd.read_csv(f"{out}/contacts.tsv", sep="\t")
    far = predicted[predicted["column_j"] - predicted["column_i"] >= 6]
    best = far.nlargest(len(columns), "probability", keep="first")
    return float(np.mean([pair in truth for pair in zip(best["column_i"], best["column_j"], strict=True)]))


def sequences(path: str) -> list[str]:
    records = Path(path).read_text(encoding="utf-8").split(">")[1:]
    return ["".join(record.splitlines()[1:]) for record in records]


def golden_steps() -> dict[str, Step]:
    """Published networks with random parameters, whose results other programs computed."""
    golden = "shared/golden"
    letters = "ARNDCQEGHILKMFPSTWYVX-"

    def write_phyloformer() -> None:
        import torch

        parameters = np.load(f"{golden}/phyloformer/wide_phyloformer_params.npz")
        torch.save({name: torch.from_numpy(array) for name, array in parameters.items()}, "golden.ckpt")
        rows = np.load(f"{golden}/phyloformer/wide_phyloformer.npz")["in/alignment"]
        text = (f">s{i}\n{''.join(letters[code] for code in row)}\n" for i, row in enumerate(rows))
        Path("golden.fa").write_text("".join(text), encoding="utf-8")

    def write_alphafold() -> None:
        from bioattn.models.evoformer.parameter_files import load_parameters
        from bioattn.models.evoformer.run import write_evoformer_model

        Path("golden-model").mkdir()
        write_evoformer_model(
            Path("golden-model"), *load_parameters(Path(f"{golden}/tiny_params_af2.npz"), 2)
        )
        Path("unmasked.toml").write_text("[inputs]\nmasked_fraction = 0.0\n", encoding="utf-8")

    def distances() -> dict[str, float]:
        expected = np.load(f"{golden}/phyloformer/wide_phyloformer.npz")["out/distance"]
        ours = pd.read_csv("golden-tree/distances.tsv", sep="\t", index_col=0).to_numpy()
        upper = ours[np.triu_indices(len(ours), 1)]
        return {"agrees": float(np.allclose(upper, expected, rtol=1e-4, atol=1e-5))}

    def atoms() -> dict[str, float]:
        expected = np.load(f"{golden}/tiny_from_a3m.npz")
        positions = expected["noextra/out/iters3/final_atom_positions"]
        present = expected["noextra/out/iters3/final_atom_mask"].astype(bool)
        lines = Path("golden-fold/structure.pdb").read_text(encoding="utf-8").splitlines()
        ours = [[float(line[a : a + 8]) for a in (30, 38, 46)] for line in lines if line.startswith("ATOM")]
        moved = np.abs(np.sort(np.array(ours), axis=0) - np.sort(positions[present], axis=0)).max()
        return {"agrees": float(moved < 0.01)}

    return {
        "golden.phyloformer": Step(
            "run phyloformer golden.fa --model golden.ckpt -o golden-tree",
            prepare=write_phyloformer,
            figures=distances,
            needs=golden,
        ),
        "golden.alphafold": Step(
            f"run evoformer {golden}/features_small.a3m --model golden-model -o golden-fold"
            f" --config unmasked.toml --max-msa-clusters 24 --recycles 2 {CPU}",
            prepare=write_alphafold,
            figures=atoms,
            needs=golden,
        ),
    }


def write_genes() -> None:
    """Pieces of the demo's genome for a language model, a short one, and mutants of it."""
    with gzip.open("data/demo/genome.fa.gz", "rt") as text:
        chromosome = "".join(text.read().split(">")[1].splitlines()[1:])
    pieces = {f"g{i}": chromosome[i * 300 : i * 300 + 200] for i in range(6)}
    Path("genes.fa").write_text("".join(f">{name}\n{piece}\n" for name, piece in pieces.items()))
    Path("short.fa").write_text(f">g0\n{pieces['g0'][:60]}\n")
    first = pieces["g0"]
    mutants = [f"{first[i]}{i + 1}{'A' if first[i] != 'A' else 'C'}" for i in (10, 20, 30)]
    Path("mutants.tsv").write_text("sequence\tmutant\n" + "".join(f"g0\t{name}\n" for name in mutants))


def column(path: str, name: str) -> "pd.Series[Any]":
    return pd.read_csv(path, sep=None, engine="python")[name]


PROMOTER_STEPS = {
    "promoters": Step(
        "prepare promoters data/tiny/genome.fa data/tiny/annotation.gff3 --upstream 120 --downstream 0 --flank 20"
        " --anchor cds -o promoters.fa\n"
        "prepare dataset promoters.fa data/tiny/responses.tsv --treatment-table data/tiny/treatments.tsv"
        " --holdout validation=chr5 --holdout test=chr6 -o x.dataset.h5",
        contents="promoters.fa promoters.bed promoters.audit.tsv x.dataset.h5 x.dataset.audit.tsv",
    ),
    "train promoter": Step(
        f"train promoter x.dataset.h5 -o model --epochs 2 --readout shared {CPU}", contents="model"
    ),
    "run promoter": Step(
        f"run promoter model promoters.fa -o predictions.tsv {CPU}", contents="predictions.tsv"
    ),
    "export attention": Step(
        f"export attention model promoters.fa -o attention.h5 {CPU}", contents="attention.h5"
    ),
    "shards": Step(
        f"export attention model promoters.fa -o part-1.h5 --shard 1/2 {CPU}\n"
        f"export attention model promoters.fa -o part-2.h5 --shard 2/2 {CPU}\n"
        "merge part-1.h5 part-2.h5 -o merged.h5",
        contents="merged.h5",
    ),
    "explain attribution": Step(
        f"explain attribution model promoters.fa -o attribution.h5 {CPU}\n"
        f"explain attribution model promoters.fa -o gradients.h5 --method integrated-gradients --genes G01 {CPU}",
        contents="attribution.h5 gradients.h5",
    ),
    "explain heads": Step(f"explain heads model x.dataset.h5 -o heads --split train {CPU}", contents="heads"),
    "explain motifs": Step(
        "explain motifs attention.h5 attribution.h5 --expected data/settings/expected-tiny.tsv"
        " --motifs data/tiny/motifs.meme --promoters promoters.fa --shuffles 20 -o expected.tsv",
        contents="expected.tsv",
    ),
    "response curve": Step(
        "explain response-curve data/tiny/responses.tsv data/settings/times-tiny.tsv --along minutes"
        " -o curves.json",
        contents="curves.json",
    ),
    "exports": Step(
        "export motifs attribution.h5 --promoters promoters.fa --max-motifs 2 --max-seqlets 50 -o motifs\n"
        "export tracks attention.h5 -o tracks --downstream 0\n"
        "export tracks attention.h5 -o bedgraph --downstream 0 --format bedgraph --treatment treatment1\n"
        "export arrays attention.h5 -o attention.h5ad\n"
        "export arrays attribution.h5 -o attribution-npz --treatment treatment1",
        contents="motifs tracks bedgraph attention.h5ad attribution-npz",
    ),
    "planted": Step(
        "prepare promoters data/demo/genome.fa.gz data/demo/annotation.gff3.gz --anchor cds --upstream 200"
        " --downstream 0 --flank 20 -o demo.fa\n"
        "prepare dataset demo.fa data/demo/responses.tsv.gz --holdout validation=chr7 --holdout test=chr8"
        " -o demo.dataset.h5\n"
        f"train promoter demo.dataset.h5 -o demo-model --epochs 2 --no-baselines {CPU}\n"
        f"export attention demo-model demo.fa -o demo.h5 {CPU}\n"
        "simulate score demo.h5 data/demo/truth.tsv.gz --dataset demo.dataset.h5 -o score.json\n"
        f"explain check demo-model demo.fa -o check.json --dataset demo.dataset.h5 --samples 20 {CPU}",
        contents="score.json check.json demo-model/history.csv demo-model/evaluation.json",
    ),
    "diffusion": Step(
        f"train diffusion x.dataset.h5 -o writer --config data/settings/diffusion-tiny.toml {CPU}\n"
        f"generate promoters writer --treatment treatment1 --not treatment2 -n 20 -o designs.fa --steps 8 {CPU}\n"
        f"explain check writer designs.fa --dataset x.dataset.h5 -o designs.json --samples 8 {CPU}",
        contents="writer/history.csv designs.fa designs.json",
    ),
}

ALIGNMENT_STEPS = {
    "alignments": Step(
        "prepare msa data/families/msa/simulated000000.a3m -o family.a3m --max-identity 0.9 --max-depth 60"
        " --stats family.json --threads 1\n"
        "prepare contacts data/families/PAIRS.tsv -o families.dataset.h5 --max-depth 60\n"
        "prepare templates data/families/msa/simulated000000.a3m data/templates/helix.pdb -o templates.h5",
        contents="family.a3m family.json families.dataset.h5 templates.h5",
    ),
    "train evoformer": Step(
        f"train evoformer families.dataset.h5 -o tiny-evoformer --steps 4 --config evoformer.toml {CPU}",
        prepare=lambda: Path("evoformer.toml").write_text(
            "[model]\nnum_blocks = 1\ncentred_outer_product = false\nmsa_channels = 16\npair_channels = 16\n"
            "[training]\nsteps_per_round = 2\ncrop = 32\nmax_extra_msa = 32\nmax_msa_clusters = 8\n",
            encoding="utf-8",
        ),
        contents="tiny-evoformer",
    ),
    "evoformer attention": Step(
        "run evoformer family.a3m --model data/models/evoformer-contacts -o family --attention family.h5"
        f" --max-msa-clusters 16 --representations pair {CPU}\n"
        "export contacts family.h5 -o attention-contacts.tsv\n"
        "run evoformer data/families/msa --model data/models/evoformer-contacts -o several --attention several.h5"
        f" --sites '*.msa_row' --max-msa-clusters 16 {CPU}\n"
        "export contacts several.h5 --fit families.dataset.h5 -o regression.json\n"
        "export structure family.h5 data/families/structure/simulated000000.pdb -o painted.pdb",
        contents="family family.h5 several several.h5 attention-contacts.tsv regression.json painted.pdb",
    ),
    "alphafold file": Step(
        "run evoformer shared/golden/features_small.a3m --model shared/golden/tiny_params_af2.npz -o fold"
        f" --recycles 1 {CPU}",
        contents="fold",
        needs="shared/golden",
    ),
    "phyloformer": Step(
        "run phyloformer data/phyloformer/alignment.fa --model data/phyloformer/parameters.ckpt -o phylogeny"
        f" --attention phylogeny.h5 {CPU}\n"
        "simulate trees -o trees --count 12 --sequences 4-6 --sites 40\n"
        f"train phyloformer trees/PAIRS.tsv -o trees-model --config data/settings/phyloformer-tiny.toml {CPU}",
        contents="phylogeny phylogeny.h5 trees trees-model/history.csv",
    ),
}

LANGUAGE_STEPS = {
    "shipped decoder": Step(
        f"run language data/models/ecoli-decoder genes.fa -o scores.tsv --embeddings embeddings.h5 {CPU}\n"
        f"run language data/models/ecoli-decoder genes.fa -o variants.tsv --variants mutants.tsv {CPU}\n"
        f"export attention data/models/ecoli-decoder short.fa -o decoder.h5 {CPU}\n"
        f"generate language data/models/ecoli-decoder -n 2 --prompt TATAAA --max-length 60 -o new.fa {CPU}",
        contents="scores.tsv variants.tsv embeddings.h5 decoder.h5 new.fa",
        figures=lambda: {"perplexity": float(column("scores.tsv", "perplexity").mean())},
        prepare=lambda: write_genes(),
    ),
    "Hugging Face folder": Step(
        f"run language esm proteins.fa -o esm.tsv {CPU}\nexport attention esm proteins.fa -o esm.h5 {CPU}",
        prepare=make_language_model,
        contents="esm.tsv esm.h5",
    ),
    "train language": Step(
        "prepare language data/tiny/genome.fa --split position -o genome.dataset.h5\n"
        f"train language genome.dataset.h5 -o genome-model --config data/settings/language-tiny.toml {CPU}",
        contents="genome.dataset.h5 genome-model",
    ),
}

OTHER_STEPS = {
    "molecules": Step(
        "prepare molecules data/molecules/molecules.tsv -o molecules.dataset.h5 --target activity\n"
        f"train molecule molecules.dataset.h5 -o molecules --config data/settings/molecule-tiny.toml {CPU}\n"
        f"run molecule molecules data/molecules/molecules.tsv -o activities.tsv {CPU}\n"
        f"export attention molecules data/molecules/molecules.tsv -o molecules.h5 {CPU}",
        contents="molecules.dataset.h5 molecules activities.tsv molecules.h5",
    ),
    "translation": Step(
        "simulate translation -o pairs --task reverse-complement --pairs 60 --longest 8\n"
        "prepare translation pairs --source-alphabet dna --target-alphabet dna -o pairs.dataset.h5\n"
        f"train translation pairs.dataset.h5 -o translator --config data/settings/translation-tiny.toml {CPU}\n"
        f"run translation translator pairs/source.fa -o outputs.fa {CPU}\n"
        f"export attention translator pairs/source.fa --targets pairs/target.fa -o pairs.h5 {CPU}",
        contents="pairs pairs.dataset.h5 translator outputs.fa pairs.h5",
    ),
    "memory": Step(
        f"train memory data/cascade/facts.tsv -o memory --hops 3 --steps 40 {CPU}\n"
        f"run memory memory data/cascade -o answers.tsv --attention hops.h5 {CPU}",
        contents="memory answers.tsv hops.h5",
    ),
    "simulations": Step(
        "simulate promoters -o sim-promoters --genes 40 --treatments 2 --length 120 -c simulation.chromosomes=4\n"
        "simulate msa -o sim-msa --families 2 --depth 12:20 --length 30:34\n"
        "simulate language -o sim-language --sequences 20\n"
        "simulate molecules -o sim-molecules --molecules 20\n"
        "simulate translation -o sim-translation --task cascade --pairs 10",
        contents="sim-promoters sim-msa sim-language sim-molecules sim-translation",
    ),
}

STEPS = PROMOTER_STEPS | LANGUAGE_STEPS | OTHER_STEPS | ALIGNMENT_STEPS | contact_steps() | golden_steps()
"""All steps, in the order in which they run; a step reads what those before it left."""
