"""Two processes learn of sequences what one does."""

import numpy as np

from bioattn_cli.main import main
from tests.training.runs import assert_same_curves


def test_two_processes_learn_what_one_does(tmp_path, train_together):
    random = np.random.default_rng(0)
    fasta, dataset = tmp_path / "s.fa", tmp_path / "s.dataset.h5"
    sequences = ("".join(random.choice(list("ACDEFGHIKL"), 30)) for _ in range(40))
    fasta.write_text("".join(f">s{number}\n{sequence}\n" for number, sequence in enumerate(sequences)))
    assert main(["prepare", "language", str(fasta), "--alphabet", "protein", "-o", str(dataset), "-q"]) == 0
    sizes = ("layers=1", "channels=16", "num_heads=2", "hidden_channels=16", "context=32")
    words = ["language", str(dataset), "--shape", "encoder", "--steps", "4", "--threads", "1"]
    words += [word for size in sizes for word in ("-c", f"model.{size}")]
    assert main(["train", *words, "-o", str(tmp_path / "one"), "-q"]) == 0
    together = train_together([*words, "-o", str(tmp_path / "two")])
    assert together.exit_codes() == [0, 0], together.errors()
    assert_same_curves(tmp_path / "one", tmp_path / "two", "training_loss")
