"""Attention of residues to residues: its maps, head by head or their mean, and painting it on a structure.

How much each residue is looked at stands as B-factors from 0 to 100; scripts for ChimeraX and PyMOL colour them
and draw lines between residues.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import MIN_SEPARATION, Reduction, matching_sites, not_there, require_names
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.alignment import Alignment
from bioattn.formats.structure_file import ResidueKey, require_structure_name, write_bfactors
from bioattn.interpret.choices import ExportStructure, ScriptFormat
from bioattn.io.files import text_output
from bioattn.models.running import Running, RunReport
from bioattn.store.reader import Attention, SiteInfo, open_attention
from bioattn.structures.chain import BLANK_CHAIN, Chain, read_chain
from bioattn.structures.column_mapping import map_columns
from bioattn.text import quoted

ROW_SITES = "*.msa_row"
RESIDUES = ("alignments", "sequences")
"""What files are over that can have maps of residues."""


def choose_sites(attention: Attention, patterns: Sequence[str] | None = None) -> list[SiteInfo]:
    """The sites whose names match one of the shell patterns; None = row attention, or all where there is none.

    Row attention over the extra MSA counts only where there is no other.

    Raises: BioattnError for a pattern that matches none.
    """
    if patterns:
        return [attention.sites[name] for name in matching_sites(patterns, attention.sites, attention.path)]
    rows = [info for info in attention.sites.values() if fnmatchcase(info.name, ROW_SITES)]
    own = [info for info in rows if not info.name.startswith("extra_msa.")]
    return own or rows or list(attention.sites.values())


def choose_maps(
    attention: Attention, patterns: Sequence[str] | None, heads: Sequence[int] | None
) -> list[tuple[SiteInfo, list[int | None]]]:
    """The sites as of `choose_sites`, each with its heads among `heads` (None = all), in the file's order; [None]
    where a site holds something made of all heads.

    Raises: BioattnError for a pattern that matches no site, or a head that none of the sites has.
    """
    sites = choose_sites(attention, patterns)
    known = sorted({head for info in sites if "head" in info.dims for head in info.heads})
    for head in heads or ():
        if head not in known:
            raise not_there("--heads", head, attention.path, "head", known)
    chosen: list[tuple[SiteInfo, list[int | None]]] = []
    for info in sites:
        own = [head for head in info.heads if heads is None or head in heads]
        chosen.append((info, [*own] if "head" in info.dims else [None]))
    return chosen


def head_map(attention: Attention, info: SiteInfo, sample: str, head: int | None) -> NDArray[np.float64]:
    """(Q, K) of one head, the mean over rows (or outer residues) where the file holds each.

    Raises: BioattnError when the site has no queries.
    """
    if "query" not in info.dims:
        raise BioattnError(
            f"{attention.path}: site {info.name} has one query for all, so there is no map of it; choose others "
            "with --sites"
        )
    weights = attention.weights(info.name, sample=sample, head=head).astype(np.float64)
    outer = [dim for dim in info.dims if dim not in ("sample", "head", "query", "key", "rank")]
    if info.reduce == Reduction.TOP_K:
        places = attention.key_index(info.name, sample=sample, head=head)
        size = weights.shape[-2]
        dense = np.zeros((*weights.shape[:-1], size))
        np.put_along_axis(dense, places.astype(np.intp), weights, axis=-1)
        weights = dense
    return weights.mean(axis=tuple(range(len(outer)))) if outer else weights


def only_sample(attention: Attention, sample: str | None, over: Sequence[str]) -> str:
    """The alignment, or whatever the file may be over, that is meant.

    Raises: BioattnError when it is not there or could be any of several.
    """
    if attention.inputs not in over:
        raise BioattnError(
            f"{attention.path}: holds attention over {attention.inputs}; one over {' or '.join(over)} is needed"
        )
    names = [str(name) for name in attention.samples.index]
    if sample is None and len(names) == 1:
        return names[0]
    if sample is None:
        raise BioattnError(
            f"{attention.path}: holds {len(names):,} {attention.inputs}; choose with --sample ({quoted(names)})"
        )
    require_names("--sample", [sample], names, attention.path, attention.inputs.removesuffix("s"))
    return sample


class Protein(NamedTuple):
    """What the places of a sample's maps are."""

    name: str
    letters: str
    """R residues."""
    columns: NDArray[np.int64]
    """(R,): their match columns, or places in the sequence, from 0."""
    num_columns: int
    """Columns of the whole alignment, or residues of the sequence."""


def read_protein(attention: Attention, name: str) -> Protein:
    """The residues of an alignment's target, or of a language model's protein.

    Raises: BioattnError when the file does not hold it; as `require_residues`.
    """
    require_residues(attention)
    if attention.inputs == "alignments":
        columns = attention.columns(name)
        num_columns = int(attention.samples["alignment_columns"][name])
        return Protein(name, str(attention.samples["query"][name]), columns, num_columns)
    letters = str(attention.samples["query"][name]).replace("-", "")
    return Protein(name, letters, np.arange(len(letters)), len(letters))


def residue_names(attention: Attention, protein: Protein) -> list[str]:
    """(R,) what residues are called: letter and number from 1."""
    if attention.inputs == "alignments":
        return list(map(str, attention.sample_list("residue_names", protein.name) or ()))
    return [f"{letter}{number}" for number, letter in enumerate(protein.letters, start=1)]


def require_residues(attention: Attention) -> None:
    """Raises: BioattnError unless the file is over alignments, or whole proteins with a token for each residue."""
    if attention.inputs != "alignments" and "query" not in attention.samples:
        raise BioattnError(
            f"{attention.path}: holds {attention.inputs} without a residue for each token; alignments are needed, "
            "or a language model's proteins that it read whole (no windows, no DNA)"
        )


def self_attention(attention: Attention) -> list[SiteInfo]:
    """The sites of a language model's encoder, or of its decoder where there is no encoder."""
    stacks = (
        [info for info in attention.sites.values() if info.name.startswith(f"language.{stack}.")]
        for stack in ("encoder", "decoder")
    )
    return next((stack for stack in stacks if stack), [])


def residue_map(
    attention: Attention, info: SiteInfo, protein: Protein, head: int | None
) -> NDArray[np.float64]:
    """(R, R) of one head: `head_map` without special tokens."""
    whole = head_map(attention, info, protein.name, head)
    if attention.inputs == "alignments":
        return whole
    names = residue_names(attention, protein)
    query, key = (
        pd.Index(attention.coordinates(info.name, dim, protein.name)).get_indexer(pd.Index(names))
        for dim in ("query", "key")
    )
    return whole[np.ix_(query, key)]


def choose_residue_maps(
    attention: Attention, patterns: Sequence[str] | None, heads: Sequence[int] | None
) -> list[tuple[SiteInfo, list[int | None]]]:
    """As `choose_maps`; None = row attention, or `self_attention`.

    Raises: BioattnError also for a site that looks from sequence to sequence.
    """
    chosen = choose_maps(attention, patterns or [info.name for info in self_attention(attention)], heads)
    for info, _ in chosen:
        if attention.inputs == "alignments" and info.kind("key") != "residue":
            raise BioattnError(
                f"{attention.path}: site {info.name} looks from sequence to sequence, not at residues; choose "
                f"others with --sites, such as {ROW_SITES!r}"
            )
    return chosen


def mean_residue_map(
    attention: Attention,
    protein: Protein,
    *,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """(R, R) attention of residues to residues, the mean over sites, their heads and rows; one map in memory.

    heads: of every site that has them; None = all.

    Raises: BioattnError when a site looks from sequence to sequence, and for sites or heads that are not there.
    """
    length = len(protein.letters)
    total, number = np.zeros((length, length)), 0
    for info, own in choose_residue_maps(attention, sites, heads):
        for head in own:
            total += residue_map(attention, info, protein, head)
            number += 1
    return total / number


def strongest_pairs(
    map_RR: NDArray[np.float64], number: int, min_separation: int = MIN_SEPARATION
) -> list[tuple[int, int, float]]:
    """The pairs of places i < j with most attention, both directions averaged, in falling order.

    min_separation: least j - i. Pairs without attention are left out; of equal ones the first come first.
    """
    first, second = np.triu_indices(len(map_RR), k=min_separation)
    weights = (map_RR[first, second] + map_RR[second, first]) / 2
    order = np.argsort(-weights, kind="stable")[:number]
    return [(int(first[k]), int(second[k]), float(weights[k])) for k in order if weights[k] > 0]


HIGHEST = 100.0
"""B-factor of the residue that is looked at most; that of the one looked at least is 0."""
LINES = 20
"""Lines between residues that a script draws."""


def paint_structure(given: ExportStructure, _running: Running) -> RunReport:
    """Copy a PDB or mmCIF file with attention in the place of B-factors.

    A residue's value is the attention that it receives, the mean over all residues that look, over sites, heads
    and rows; with `query_residue` (the author's number and insertion code) what that residue gives to it.
    Values are scaled to 0 … 100 between the least and the most of the chain; atoms of residues without a column
    in the alignment, and of other chains, get -1.

    Scripts for ChimeraX and PyMOL draw lines between the `LINES` pairs of residues, at least six apart in the
    chain, with most attention, both directions averaged; with `query_residue`, from that residue to those it looks
    at most.

    Raises: BioattnError when the file holds promoters, the chain does not fit the target, or the residue is not in
    it; SettingsError for names and options that do not fit.
    """
    structure, output, query_residue = given.structure, given.output, given.query_residue
    require_structure_name(output)
    found = read_chain(structure, given.chain)
    with open_attention(given.attention) as attention:
        protein = read_protein(attention, only_sample(attention, given.sample, RESIDUES))
        target = Alignment.plain([protein.name], protein.letters)
        mapping = map_columns(found, target, source=str(structure))
        # Of each residue of the chain its place among the protein's, -1 where it has none.
        places = np.full(len(found), -1, dtype=np.int64)
        places[mapping.residues] = mapping.columns
        map_RR = mean_residue_map(attention, protein, sites=given.sites or None, heads=given.heads)
    present = np.flatnonzero(places >= 0)
    shown_RR = map_RR[np.ix_(places[present], places[present])]
    if query_residue is None:
        weights = map_RR.mean(axis=0)
    else:
        place = places[_residue(found, query_residue, structure)]
        if place < 0:
            raise BioattnError(
                f"--query-residue {query_residue}: this residue of chain {found.name} has no column in the "
                "alignment"
            )
        weights = map_RR[place]
        asked = np.flatnonzero(places[present] == place)[0]
        # Both directions are averaged: from the residue alone.
        shown_RR = np.where(np.arange(len(shown_RR))[:, None] == asked, shown_RR, 0)
    values = weights[places[present]] * len(map_RR)
    low, high = float(values.min()), float(values.max())
    scaled = HIGHEST * (values - low) / (high - low) if high > low else np.zeros_like(values)
    numbers = zip(found.numbers, found.insertion_codes, strict=True)
    keys = [ResidueKey(found.label, number, code) for number, code in numbers]
    painted = {keys[i]: float(value) for i, value in zip(present, scaled, strict=True)}
    write_bfactors(structure, output, painted, found.atoms)
    scripts = {each: output.with_suffix(f".{each}") for each in given.format}
    if scripts:
        pairs = strongest_pairs(shown_RR, LINES)
        keys_of = [keys[i] for i in present]
        lines = [ResidueLine(keys_of[i], keys_of[j], weight / pairs[0][2]) for i, j, weight in pairs]
        for each, path in scripts.items():
            with text_output(path) as file:
                file.writelines(command + "\n" for command in SCRIPTS[each](output.name, lines))
    most = int(present[int(values.argmax())])
    most_attended = f"{found.residue_names[most]} {found.numbers[most]}{found.insertion_codes[most]}"
    what = "attention received" if query_residue is None else f"attention of residue {query_residue}"
    outputs = [output, *scripts.values()]
    return RunReport(
        f"{protein.name} on chain {found.name}: {what} from {low:.3g} (0) to {high:.3g} × uniform (100, "
        f"{most_attended}); {len(present)} of {len(found)} residues have a column",
        f"wrote {' and '.join(map(str, outputs))}",
        outputs=outputs,
        minimum=round(low, 6),
        maximum=round(high, 6),
    )


def _residue(chain: Chain, text: str, structure: Path) -> int:
    """Index of the residue that the author calls so: 52 or 52A."""
    digits = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    try:
        number, code = int(digits), text[len(digits) :]
    except ValueError:
        raise SettingsError(f"--query-residue {text!r}: give a residue number such as 52, or 52A") from None
    known = list(zip(chain.numbers, chain.insertion_codes, strict=True))
    if (number, code) in known:
        return known.index((number, code))
    raise BioattnError(
        f"--query-residue {text}: {structure} has no such residue in chain {chain.name}; its numbers run from "
        f"{min(chain.numbers)} to {max(chain.numbers)}"
    )


_LINE_COLOUR = "D55E00"


class ResidueLine(NamedTuple):
    """A line from CA to CA."""

    first: ResidueKey
    second: ResidueKey
    weight: float
    """As a share of the largest, 0..1; decides the width."""


def _chimerax(structure: str, lines: Sequence[ResidueLine]) -> Iterator[str]:
    """Commands of the ChimeraX user guide (open, color byattribute, pbond).

    Its model 1 is taken, so the script is for a new session; files are opened from the folder of the script.
    """
    yield f'open "{structure}" maxModels 1'
    yield "hide #1 atoms\nshow #1 cartoons\ncolor #1 gray"
    yield "color byattribute bfactor #1 & @@bfactor>=0 palette white:blue range 0,100"
    for line in lines:
        ends = " ".join(_chimerax_atom(key) for key in (line.first, line.second))
        yield f"pbond {ends} color #{_LINE_COLOUR} radius {0.05 + 0.4 * line.weight:.3f} dashes 0 name attention"


def _chimerax_atom(key: ResidueKey) -> str:
    chain = "" if key.chain == BLANK_CHAIN else f"/{key.chain}"
    return f"#1{chain}:{key.number}{key.insertion_code}@CA"


def _pymol(structure: str, lines: Sequence[ResidueLine]) -> Iterator[str]:
    """Commands of the PyMOL reference (load, spectrum, distance), which opens files from where it runs."""
    yield f'load "{structure}", painted\nhide everything, painted\nshow cartoon, painted\ncolor gray70, painted'
    yield "spectrum b, white_blue, painted and b > -0.5, minimum=0, maximum=100"
    yield f"set dash_color, 0x{_LINE_COLOUR}\nset dash_gap, 0"
    for number, line in enumerate(lines, start=1):
        ends = ", ".join(_pymol_atom(key) for key in (line.first, line.second))
        yield f"distance attention_{number}, {ends}, label=0"
        yield f"set dash_width, {0.5 + 6 * line.weight:.2f}, attention_{number}"


def _pymol_atom(key: ResidueKey) -> str:
    chain = "''" if key.chain == BLANK_CHAIN else key.chain
    residue = f"{key.number}{key.insertion_code}".replace("-", "\\-")
    return f"first (painted and chain {chain} and resi {residue} and name CA)"


SCRIPTS = {ScriptFormat.CXC: _chimerax, ScriptFormat.PML: _pymol}
"""Commands that open a structure, given by name, of the script's folder and draw lines."""
