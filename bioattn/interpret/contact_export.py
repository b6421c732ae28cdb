"""Contacts that attention speaks of, as files other programs read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.errors import BioattnError, SettingsError
from bioattn.files import text_output
from bioattn.formats.rr import write_rr
from bioattn.interpret.attention_contacts import mean_map, predict_contacts
from bioattn.interpret.contact_regression import ContactRegression
from bioattn.progress import NoProgress, Progress
from bioattn.store.attention_reader import AttentionFile, open_attention
from bioattn.structures.contacts import MIN_SEPARATION

RR_SUFFIX = ".rr"
TABLE_SUFFIXES = (".tsv", ".tsv.gz")


def require_contact_name(output: Path) -> None:
    """Raises: SettingsError when the name does not say which format is wanted."""
    if not output.name.endswith((RR_SUFFIX, *TABLE_SUFFIXES)):
        raise SettingsError(f"--output {output}: end its name in .rr (CASP RR), .tsv or .tsv.gz")


def export_contacts(
    attention_path: Path,
    output: Path,
    *,
    regression: ContactRegression | None = None,
    sample: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Write the pairs of residues at least 6 apart, likeliest first; returns how many alignments are in the file.

    output: CASP RR (one alignment) by its name `.rr`, else a table: sample, i, j (match columns from 1),
    residue_i, residue_j and probability, or score without a regression: the mean corrected map of all heads, which
    ranks pairs but is no probability. sample: one alignment; None = all.

    Raises: SettingsError for another name or for RR without a regression; BioattnError when RR is asked of several
    alignments, the sample is not there, or the regression belongs to another model.
    """
    require_contact_name(output)
    progress = progress or NoProgress()
    as_rr = output.name.endswith(RR_SUFFIX)
    if as_rr and regression is None:
        raise SettingsError(
            f"--output {output}: RR holds probabilities, which need --regression; without one write .tsv"
        )
    with open_attention(attention_path) as attention:
        names = _samples(attention, sample)
        if as_rr and len(names) > 1:
            raise SettingsError(
                f"--output {output}: RR holds one alignment and {attention_path} has {len(names):,}; choose one "
                f"with --sample ({_some(names)}) or write .tsv"
            )
        progress.begin("alignments", len(names))
        try:
            if as_rr:
                assert regression is not None
                write_rr(
                    output,
                    str(attention.samples["query"][names[0]]),
                    predict_contacts(attention, names[0], regression),
                    target=names[0],
                    method=[
                        f"bioattn {__version__}",
                        "logistic regression on row attention, symmetrised, average product correction",
                    ],
                )
                progress.advance()
                return 1
            with text_output(output) as file:
                quantity = "score" if regression is None else "probability"
                file.write(f"sample\ti\tj\tresidue_i\tresidue_j\t{quantity}\n")
                for name in names:
                    file.writelines(_lines(attention, name, regression))
                    progress.advance()
        finally:
            progress.end()
    return len(names)


def _samples(attention: AttentionFile, sample: str | None) -> list[str]:
    known = [str(name) for name in attention.samples.index]
    if sample is None:
        return known
    if sample not in known:
        raise BioattnError(f"{attention.path}: has no sample {sample!r}; it holds {_some(known)}")
    return [sample]


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _lines(attention: AttentionFile, name: str, regression: ContactRegression | None) -> Iterator[str]:
    if regression is None:
        map_RR: NDArray[np.float64] = mean_map(attention, name)
    else:
        map_RR = predict_contacts(attention, name, regression)
    query = str(attention.samples["query"][name])
    first, second = np.triu_indices(len(query), k=MIN_SEPARATION)
    values = map_RR[first, second]
    for index in np.argsort(-values, kind="stable"):
        i, j = int(first[index]), int(second[index])
        yield f"{name}\t{i + 1}\t{j + 1}\t{query[i]}\t{query[j]}\t{values[index]:.6g}\n"
