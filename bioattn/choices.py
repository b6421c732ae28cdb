"""What options choose: from a list that several rooms share, or by name or number from what a file or model holds.

What a file does not hold is a `BioattnError`; what the command line alone gets wrong, such as a name twice, is a
`SettingsError` (`bioattn.errors`).

Nothing here imports torch or NumPy.
"""

import difflib
from collections.abc import Collection, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from bioattn.errors import BioattnError, SettingsError
from bioattn.text import quoted

MEAN = "mean"
"""In the place of a treatment to compare with: the mean over all treatments, unless one is called so."""
TRAIN, VALIDATION, TEST = 0, 1, 2
SPLIT_NAMES = ("train", "validation", "test")
"""Sides of a split, by their numbers in datasets."""
MIN_IDENTITY = 0.7
"""Least fraction of equal residues among the aligned residues of a structure's chain and its row."""
CONTACT_DISTANCE = 8.0
"""Distance between CB atoms, in ångström, below which two residues are in contact."""
MIN_SEPARATION = 6
"""Least distance in columns of a counted pair, as in CASP: neighbours in the chain always touch."""
Enumeration = TypeVar("Enumeration", bound=StrEnum)


class Task(StrEnum):
    """What a promoter model predicts."""

    REGRESSION = "regression"
    """Responses in the units of the tables, or standardised."""
    BINARY = "binary"


class Noise(StrEnum):
    """How bases are made unknown, more and more of them."""

    MASKED = "masked"
    """A base is hidden, with a probability that rises to 1 (absorbing noise, Austin et al. 2021)."""
    GAUSSIAN = "gaussian"
    """Normal noise is added to the one-hot code of a base (Ho et al. 2020, Song et al. 2021)."""


class Subset(StrEnum):
    """Genes or proteins by what training does with them."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


def chosen(kind: type[Enumeration], name: str, value: str) -> Enumeration:
    """The member of an enumeration. Raises: SettingsError naming the argument and what it can be."""
    if value not in list(kind):
        raise SettingsError(f"{name}={value!r}: one of {', '.join(kind)} is needed")
    return kind(value)


def not_there(
    option: str, name: str | int, source: object, what: str, known: Collection[str] | Collection[int]
) -> BioattnError:
    """The error that `source` (a path, say) holds no `what` of this name.

    >>> str(not_there("--treatment", "haet", "a.h5", "treatment", ["cold", "heat"]))
    "--treatment 'haet': a.h5 holds no such treatment; near: 'heat'"
    >>> str(not_there("--heads", 3, "site s of a.h5", "head", (0, 1)))
    '--heads 3: site s of a.h5 holds no such head; it holds 0, 1'
    """
    near = difflib.get_close_matches(name, map(str, known), n=3) if isinstance(name, str) else []
    if near:
        hint = f"near: {quoted(near)}"
    elif isinstance(name, int):
        hint = f"it holds {', '.join(map(str, known)) or 'none'}"
    else:
        hint = f"it holds {quoted(list(map(str, known))) or 'none'}"
    return BioattnError(f"{option} {name!r}: {source} holds no such {what}; {hint}")


def require_names(
    option: str, names: Sequence[str], known: Collection[str], source: object, what: str = "treatment"
) -> None:
    """Raises: BioattnError for a name that is not known, SettingsError for one given twice."""
    seen: set[str] = set()
    for name in names:
        if name not in known:
            raise not_there(option, name, source, what, known)
        if name in seen:
            raise SettingsError(f"{option} {name!r} is given twice")
        seen.add(name)


def require_reference(option: str, name: str | None, known: Sequence[str], source: object) -> None:
    """Raises: BioattnError when `name` is neither one of the treatments known nor the mean of several."""
    if name is None or name in known:
        return
    if name != MEAN:
        error = not_there(option, name, source, "treatment", known)
        raise BioattnError(f"{error}; `{MEAN}` is the mean over all of them")
    if len(known) == 1:
        raise BioattnError(f"{source}: holds one treatment, which is the `{MEAN}`; leave {option} out")


def matching_sites(patterns: Sequence[str], known: Collection[str], source: object) -> list[str]:
    """The attention sites that any shell pattern of `--sites` matches, in the order known.

    Raises: BioattnError for a pattern that matches none.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise not_there("--sites", pattern, source, "attention site", known)
    return [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]


def parse_heads(text: str | None) -> tuple[int, ...] | None:
    """`0,2` → (0, 2). Raises: SettingsError when it is not a list of numbers."""
    if text is None:
        return None
    try:
        return tuple(int(head) for head in text.split(","))
    except ValueError:
        raise SettingsError(f"--heads {text!r}: give head numbers separated by commas, such as 0,2") from None


class AttentionScore(StrEnum):
    """Names of the scoring functions."""

    DOT = "dot"
    ADDITIVE = "additive"
    GAUSSIAN = "gaussian"


class PositionEncoding(StrEnum):
    """How self-attention is told where its queries and keys lie."""

    NONE = "none"
    """Not at all: it is blind to order."""
    SINUSOIDAL = "sinusoidal"
    """Sines and cosines of the position are added to the inputs (Vaswani et al. 2017)."""
    LEARNED = "learned"
    """A learned vector for each position is added to the inputs."""
    ROTARY = "rotary"
    """Queries and keys are rotated by angles that grow with the position, so that logits depend on the distance
    between the two alone (Su et al. 2021)."""


class WeightType(StrEnum):
    """How attention weights are stored."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class Reduction(StrEnum):
    """What is done to attention weights before writing. Rows are the outer axis: of the MSA, residues, …"""

    NONE = "none"
    MEAN_HEADS = "mean-heads"
    MAX_HEADS = "max-heads"
    MEAN_ROWS = "mean-rows"
    MAX_ROWS = "max-rows"
    TOP_K = "top-k"

    @property
    def over_heads(self) -> bool:
        """Whether no head axis is left."""
        return self in (Reduction.MEAN_HEADS, Reduction.MAX_HEADS)

    @property
    def over_rows(self) -> bool:
        """Whether no outer axis is left."""
        return self in (Reduction.MEAN_ROWS, Reduction.MAX_ROWS)


class Method(StrEnum):
    """How attribution is computed."""

    ISM = "ism"
    """In-silico mutagenesis: all three other bases at every position."""
    GRADIENT_INPUT = "gradient-input"
    """Gradient with its mean over the bases removed."""
    INTEGRATED_GRADIENTS = "integrated-gradients"
    """Mean gradient on the straight way from a baseline."""
