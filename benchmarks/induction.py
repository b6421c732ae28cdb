"""Motifs never seen before, given twice: does a decoder copy, and which of its heads do it?

    python benchmarks/induction.py --folder runs --seeds 0 1 2

`simulate language`, `prepare`, `train` with data/settings/language-induction.toml and `explain heads`, as a user
would. The model learns from sequences in which pairs of words are unique but for the copies (`--cue 2`), so that
single words come again by chance as well. Then all words of the second copies in 1,000 sequences of another seed
are predicted, in which no word comes twice but in the copies, from the second word of a copy on: what the first
one is nobody can know. Once by the whole model, once without the heads that `explain heads` names induction, once
without all others. Prints a line and the table of heads for each seed.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import options, run

from bioattn.attention.measures import masked_heads
from bioattn.formats.fasta import read_fasta
from bioattn.inference.runner import Head
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.sequences.vocabulary import CLS

SETTINGS = Path(__file__).parents[1] / "data/settings/language-induction.toml"


def copied(loaded: LoadedLanguageModel, simulation: Path, silenced: set[Head]) -> float:
    """Share of the words of second copies that are the likeliest, from the first word that is certain on."""
    truth = pd.read_csv(simulation / "truth.tsv", sep="\t").query("copy == 2").set_index("id")
    records = list(read_fasta(simulation / "sequences.fa"))
    vocabulary = loaded.vocabulary
    tokens = torch.tensor(
        np.stack([[CLS, *vocabulary.words(each.sequence, each.name)] for each in records]), dtype=torch.long
    )
    masks = {
        name: torch.tensor([[[float((name, head) not in silenced) for head in site.heads]]])
        for name, site in loaded.sites.items()
    }
    with torch.inference_mode(), masked_heads(loaded.model, masks):
        right_NL = (loaded.model(tokens[:, :-1]).argmax(-1) == tokens[:, 1:]).numpy()
    rows = [
        right[int(truth.known_from[each.name]) : int(truth.end[each.name])]
        for each, right in zip(records, right_NL, strict=True)
    ]
    return float(np.concatenate(rows).mean())


def main() -> None:
    parser = options(__doc__, seeds=(0,), output=False)
    parser.add_argument("--folder", type=Path, required=True, help="where models are kept")
    given = parser.parse_args()
    folder, dataset = given.folder, given.folder / "x.dataset.h5"
    folder.mkdir(parents=True, exist_ok=True)
    if not dataset.exists():
        run("simulate", "language", "-o", folder / "learned", "--cue", 2, "--seed", 1, "-q")
        run("simulate", "language", "-o", folder / "new", "--sequences", 1000, "--seed", 2, "-q")
        words = ("--alphabet", "protein", "--split", "record", "-q")
        run("prepare", "language", folder / "learned" / "sequences.fa", "-o", dataset, *words)
    for seed in given.seeds:
        model, heads = folder / f"model{seed}", folder / f"heads{seed}"
        if not model.exists():
            run("train", "language", dataset, "-o", model, "--config", SETTINGS, "--seed", seed, "-q")
        run("explain", "heads", model, dataset, "-o", heads, "--force", "-q")
        table = pd.read_csv(heads / "heads.tsv", sep="\t")
        loaded = load_language_model(model, torch.device("cpu"))
        named = {(row.site, row.head) for row in table.itertuples() if row.name == "induction"}
        others = {(row.site, row.head) for row in table.itertuples()} - named
        shares = [copied(loaded, folder / "new", silenced) for silenced in (set(), named, others)]
        print(
            f"seed {seed}\tinduction heads {sorted(named)}\tright {shares[0]:.4f}\twithout them {shares[1]:.4f}"
            f"\twithout all others {shares[2]:.4f}",
            flush=True,
        )
        print(table.to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
