"""Contacts that attention speaks of, as files other programs read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bioattn import __version__
from bioattn.choices import require_names
from bioattn.errors import SettingsError
from bioattn.formats.rr import ranked_pairs, write_rr
from bioattn.interpret.contacts.attention_contacts import mean_map, predict_contacts
from bioattn.interpret.contacts.contact_regression import ContactRegression
from bioattn.io.files import text_output
from bioattn.store.reader import AttentionFile, open_attention
from bioattn.structures.contacts import MIN_SEPARATION
from bioattn.system.progress import NoProgress, Progress
from bioattn.text import first_names

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

    output: CASP RR (one alignment) by its name `.rr`, else a table: sample, column_i, column_j (match columns of
    the alignment from 1), letter_i, letter_j and probability, or score without a regression: the mean corrected
    map of all heads, which ranks pairs but is no probability. sample: one alignment; None = all.

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
                f"with --sample ({first_names(names)}) or write .tsv"
            )
        progress.begin("alignments", len(names))
        try:
            if as_rr:
                assert regression is not None
                columns = attention.columns(names[0])
                # The model sees every column in which the target has a residue.
                letters = np.full(int(attention.samples["alignment_columns"][names[0]]), "-")
                letters[columns] = list(str(attention.samples["query"][names[0]]))
                write_rr(
                    output,
                    "".join(letters),
                    predict_contacts(attention, names[0], regression),
                    target=names[0],
                    method=[
                        f"bioattn {__version__}",
                        "logistic regression on row attention, symmetrised, average product correction",
                    ],
                    columns=columns,
                )
                progress.advance()
                return 1
            with text_output(output) as file:
                quantity = "score" if regression is None else "probability"
                file.write(f"sample\tcolumn_i\tcolumn_j\tletter_i\tletter_j\t{quantity}\n")
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
    require_names("--sample", [sample], known, attention.path, "alignment")
    return [sample]


def _lines(attention: AttentionFile, name: str, regression: ContactRegression | None) -> Iterator[str]:
    columns = attention.columns(name)
    if regression is None:
        map_RR = mean_map(attention, name)
        first, second = np.triu_indices(len(columns), k=1)
        apart = columns[second] - columns[first] >= MIN_SEPARATION
        first, second = first[apart], second[apart]
        order = np.argsort(-map_RR[first, second], kind="stable")
        first, second = first[order], second[order]
    else:
        map_RR = predict_contacts(attention, name, regression)
        first, second = ranked_pairs(map_RR, columns)
    query = str(attention.samples["query"][name])
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        places = f"{columns[i] + 1}\t{columns[j] + 1}\t{query[i]}\t{query[j]}"
        yield f"{name}\t{places}\t{map_RR[i, j]:.6g}\n"
