"""Embeddings of words alone (skip-gram, Mikolov et al. 2013) on the rows of language_fine_tuning.py.

    BIOATTN_SHARED=../shared python benchmarks/skip_gram.py yeast --folder runs --seeds 0 1 2

gensim learns embeddings of words of K letters, read at every letter, from what the row's models are pretrained on
without its held-out records. Each sequence is the mean of its words, or its words side by side (`by position`, the
sites that vary for GB1); linear models of scikit-learn predict the target, their penalty chosen on the validation
side. Beside each the same with random embeddings. gensim is installed from PyPI into an environment of its own.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from language_fine_tuning import DATA, ROWS, SPLIT_OF_GB1, examples
from peers import borrowing_environment
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, roc_auc_score
from tables import options

from bioattn.formats.fasta import read_fasta

LETTERS = {"yeast": 6, "donor": 3, "acceptor": 3}
"""Letters of a word; 1 for proteins."""
CHANNELS, WINDOW, EPOCHS = 64, 5, 1
PENALTIES = 10.0 ** np.arange(-4, 4)

Score = Callable[[np.ndarray, np.ndarray], float]


def words(sequence: str, letters: int) -> list[str]:
    """The words that begin at each letter."""
    return [sequence[place : place + letters] for place in range(len(sequence) - letters + 1)]


def embeddings(row: str, letters: int, seed: int) -> dict[str, np.ndarray]:
    """The embedding of each word, learned in pieces of 10,000 letters from what the row does not hold out."""
    from gensim.models import Word2Vec

    held_out = {name for each in ROWS[row].holdout for name in each.split("=")[1].split(",")}
    texts = [
        words(record.sequence[start : start + 10_000].upper(), letters)
        for record in read_fasta(DATA / ROWS[row].pretrained_on)
        if record.name not in held_out
        for start in range(0, len(record.sequence), 10_000)
    ]
    # One worker: several finish in an order of their own.
    model = Word2Vec(
        texts, vector_size=CHANNELS, window=WINDOW, sg=1, epochs=EPOCHS, min_count=1, seed=seed, workers=1
    )
    return {word: model.wv[word] for word in model.wv.index_to_key}


def measure(row: str, seed: int) -> None:
    """Print one line for each kind of features."""
    sequences, sides, targets = (np.array(column) for column in zip(*examples(row), strict=True))
    values, letters = targets.astype(float), LETTERS.get(row, 1)
    test, fit = sides == "test", sides == "train"
    if row in SPLIT_OF_GB1:  # a tenth of the training variants is the validation side
        fit &= np.random.default_rng(seed).random(len(sides)) > 0.1
    validation = ~test & ~fit
    learned = embeddings(row, letters, seed)
    random = np.random.default_rng(seed)
    for name in ("skip-gram", "random"):
        table = learned if name == "skip-gram" else {word: random.normal(size=CHANNELS) for word in learned}
        nothing = np.zeros(CHANNELS)
        words_NLC = np.array(
            [[table.get(word, nothing) for word in words(each, letters)] for each in sequences], np.float32
        )
        varying = (words_NLC != words_NLC[:1]).any(axis=(0, 2))
        for kind, features in (("mean", words_NLC.mean(1)), ("by position", words_NLC[:, varying])):
            table_NF = features.reshape(len(sequences), -1)
            table_NF = (table_NF - table_NF[fit].mean(0)) / table_NF[fit].std(0).clip(1e-9)
            print(
                f"{row}\tseed {seed}\t{name}, {kind}\t{figures(row, table_NF, values, fit, validation, test)}"
            )


def figures(
    row: str,
    table_NF: np.ndarray,
    values: np.ndarray,
    fit: np.ndarray,
    validation: np.ndarray,
    test: np.ndarray,
) -> str:
    """Test figures of the linear model that is best on the validation side."""
    is_number = row in SPLIT_OF_GB1
    scores: dict[str, Score] = (
        {"Spearman": lambda truth, given: spearmanr(truth, given).statistic}
        if is_number
        else {"AUROC": roc_auc_score, "average precision": average_precision_score}
    )
    main, best, predicted = next(iter(scores.values())), -np.inf, values
    for penalty in PENALTIES:
        if is_number:
            given = Ridge(alpha=penalty * fit.sum()).fit(table_NF[fit], values[fit]).predict(table_NF)
        else:
            model = LogisticRegression(C=1 / (penalty * fit.sum()), max_iter=300).fit(
                table_NF[fit], values[fit]
            )
            given = model.decision_function(table_NF)
        found = main(values[validation], given[validation])
        if found > best:
            best, predicted = found, given
    return ", ".join(f"{name} {score(values[test], predicted[test]):.3f}" for name, score in scores.items())


def main() -> None:
    parser = options(__doc__, seeds=(0,), output=False)
    parser.add_argument("rows", choices=ROWS, nargs="+")
    parser.add_argument("--folder", type=Path, required=True, help="where gensim's environment is kept")
    given = parser.parse_args()
    if importlib.util.find_spec("gensim") is None:
        python, missing = borrowing_environment(given.folder / "gensim", {"gensim": "gensim"})
        if missing:
            sys.exit(missing["gensim"])
        os.execv(python, [str(python), *sys.argv])
    for row in given.rows:
        for seed in given.seeds:
            measure(row, seed)


if __name__ == "__main__":
    main()
