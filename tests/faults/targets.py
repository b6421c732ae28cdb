"""What the fuzzers share: every parser with files to start from, and deterministic damage.

`fuzz_parsers.py` feeds the parsers with what coverage-guided mutation comes up with, for as long as one likes;
`test_parsers.py` with some deterministic mutations, and with all that was ever found.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bioattn.alignments.contact_pairs import read_pairs
from bioattn.checks.record import read_check
from bioattn.errors import BioattnError
from bioattn.formats.alignment_file import AlignmentFormat
from bioattn.formats.annotation import read_annotation, read_bed, read_gtf
from bioattn.formats.fasta import read_fasta
from bioattn.formats.gff import read_gff3
from bioattn.formats.meme import read_meme
from bioattn.formats.rr import read_rr
from bioattn.interpret.contacts.contact_regression import read_regression
from bioattn.interpret.known_motifs.expected_motifs import read_expected
from bioattn.interpret.tracks.layout import read_chromosome_lengths
from bioattn.models.training_history import read_history
from bioattn.promoters.chromosomes import read_aliases
from bioattn.promoters.homology import read_proteins
from bioattn.promoters.treatments import read_treatment_table
from bioattn.simulate.truth import read_truth
from tests.faults import parsers
from tests.formats import test_bfactors

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "data"
SHARED = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared")) / "data"
LARGEST_SEED = 40_000
"""Bytes; parsers have no branch that needs a long file."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser."""

    parse: Callable[[Path], object]
    seeds: tuple[str, ...] = ()
    """Globs below data/ (`data:`) or the shared data (`shared:`)."""
    texts: tuple[bytes, ...] = ()
    """Small files made here."""


def seeds_of(target: Target, *, shared: bool = True) -> list[bytes]:
    """The files to begin with, small ones only; without the shared data there are fewer."""
    roots = {"data": DATA, "shared": SHARED}
    found = list(target.texts)
    for pattern in target.seeds:
        root, _, glob = pattern.partition(":")
        if root == "shared" and not shared:
            continue
        paths = sorted(path for path in roots[root].glob(glob) if path.is_file())
        found += [path.read_bytes() for path in paths if path.stat().st_size <= LARGEST_SEED]
    return found


def parse_safely(target: Target, path: Path) -> None:
    """Parse a file; a refusal is good, anything else that is raised comes out."""
    with suppress(BioattnError):
        target.parse(path)


def _archive() -> bytes:
    """A small `.npz` with arrays of several types."""
    import io

    file = io.BytesIO()
    np.savez(file, a=np.arange(6, dtype="f4").reshape(2, 3), b=np.float64(1), c=np.array([1, 2], "i8"))
    return file.getvalue()


def _checkpoint() -> bytes:
    """A small PyTorch checkpoint."""
    import io

    import torch

    file = io.BytesIO()
    torch.save({"model": {"module.a": torch.arange(6.0).reshape(2, 3), "module.b": torch.ones(1)}}, file)
    return file.getvalue()


_GFF = (
    b"##gff-version 3\nI\t.\tgene\t3\t9\t.\t+\t.\tID=gene-a;Name=x%20y\n"
    b"I\t.\tmRNA\t3\t9\t.\t+\t.\tID=t;Parent=gene-a\n"
)
CIF = test_bfactors.CIF.encode()
_ATOM = b"ATOM      1  CA  MET A   1      11.104   6.134  -6.504  1.00  0.00           C\n"
_PACKED = tuple(__import__(name).compress(_GFF) for name in ("gzip", "lzma"))

TARGETS: dict[str, Target] = {
    "a3m": Target(
        parsers.alignment(AlignmentFormat.A3M),
        ("shared:parsers/a3m/*", "shared:parsers/a2m/*"),
        (b">q\nMK-v\n>s x\nMKaAV\n",),
    ),
    "aligned-fasta": Target(
        parsers.alignment(AlignmentFormat.FASTA), ("shared:parsers/fasta/*",), (b">q\nMKV\n>r\nM-V\n",)
    ),
    "aliases": Target(read_aliases, (), (b"#a\nchrI\tI\nchrII\tII\n",)),
    "annotation": Target(
        read_annotation,
        ("shared:parsers/gff/*", "shared:parsers/gtf/*", "shared:parsers/bed/*"),
        (_GFF, b"I\t0\t9\ta\t0\t+\n", b'I\tx\tgene\t1\t9\t.\t+\t.\tgene_id "a";\n'),
    ),
    "bed": Target(read_bed, ("shared:parsers/bed/*",), (b"I\t0\t9\ta\t0\t+\n",)),
    "check": Target(
        read_check,
        (),
        (
            b'{"format":"bioattn-check","format_version":"1.0","model_sha256":"","input_sha256":"",'
            b'"verdict":{"code":"used","sentence":"b","caveats":[],"rests_on":[]},"heads":[],"variants":[],'
            b'"measures":[{"name":"m","label":"m","value":0.5,"interval":null,"threshold":0.1,"passed":true,'
            b'"sentence":""}],"skipped":[],"settings":{"promoters":1,"treatments":2},'
            b'"curves":{"deletion":{"fraction":[0.1],"top":[1],"random":[0.5]}}}',
        ),
    ),
    "chromosome-lengths": Target(read_chromosome_lengths, (), (b"I\t100\nII\t20\t5\n", b">I\nACGT\n")),
    "clustal": Target(
        parsers.alignment(AlignmentFormat.CLUSTAL),
        ("shared:parsers/clustal/*",),
        (b"CLUSTAL W\n\na MKV 3\nb M-V 5\n",),
    ),
    "expected": Target(
        read_expected,
        (),
        (
            b"factor\tconsensus\tcondition_group\tdirection\tjaspar_id\nMSN2, "
            b">=2 sites\tAGGGG|CGG(n11)CCG\theat\tup\tMA1;MA2\n",
        ),
    ),
    "fasta": Target(
        lambda path: parsers.exhaust(read_fasta(path)), ("shared:parsers/fasta/*",), (b">a b\nACGT\n",)
    ),
    "genome": Target(
        parsers.genome, ("shared:parsers/fasta/*", "data:tiny/genome.fa"), (b">a b\nACGT\nAC\n>b\nAA\n",)
    ),
    "gff3": Target(read_gff3, ("shared:parsers/gff/*",), (_GFF,)),
    "gtf": Target(read_gtf, ("shared:parsers/gtf/*",), (b'I\tx\tgene\t1\t9\t.\t+\t.\tgene_id "a"; n 1;\n',)),
    "history": Target(
        read_history,
        (),
        (b"epoch,training_loss,validation_loss\n0,1.5,2\n1,1.0,nan\n", b"step,loss\n5,1\n"),
    ),
    "inspect": Target(
        parsers.inspect,
        (
            "data:tiny/*",
            "data:families/PAIRS.tsv",
            "data:families/contacts/*0.tsv",
            "shared:parsers/stockholm/*",
        ),
        (
            b"gene_id,status\na,kept\n",
            b'{"command": ["x"], "bioattn_version": "0"}',
            b'{"format": "bioattn-check", "measures": []}',
            b'{"format": "bioattn-msa-statistics"}',
            b'{"format": "bioattn-contact-regression", "format_version": 1, "weights": {"s": [1]}}',
            b"PFRMAT RR\nTARGET x\nMODEL 1\nMKVMKVMKV\n1 9 0 8 0.5\nEND\n",
            b"I\t0\t9\ta\t0\t+\n",
            _ATOM,
            CIF,
            *_PACKED,
        ),
    ),
    "lines": Target(parsers.lines_file, (), (b"a\r\nb\rc\n", "é\n".encode(), *_PACKED)),
    "mapping": Target(
        parsers.mapping,
        ("shared:msa_structure/mapping/*",),
        (b"msa_column\tquery_aa\tchain\tresi\ticode\tresname\n0\tM\tA\t1\t.\tMET\n3\tA\tA\t3\tA\tALA\n",),
    ),
    "mmcif": Target(parsers.structure, (), (CIF,)),
    "model-config": Target(
        parsers.model_config,
        ("data:models/*/config.json",),
        (
            b'{"format": "bioattn-model", "format_version": 1, "model_type": "promoter", '
            b'"task": "regression", "architecture": {"length": 200}}',
        ),
    ),
    "model-treatments": Target(
        parsers.treatments_of_a_model,
        (),
        (
            b'{"vocabulary": {"encoding": "features", "names": ["a"], '
            b'"categories": {"agent": ["x"]}, "numbers": [], "agent_column": null, '
            b'"unconditional": true}, "names": ["a"], "columns": {"agent": ["x"]}}',
        ),
    ),
    "motif-tables": Target(
        parsers.motif_tables,
        (),
        (
            b"motif\tsource\tconsensus\tseqlets\tmatch\tmatch_name\tmatch_q_value\ttreatment\tinformation_bits\na\tattention\tACG\t5\tM1\tX\t0.1\theat\t3\n",
        ),
    ),
    "motifs": Target(
        read_meme,
        ("shared:motifs/small_test.meme", "data:*/motifs.meme"),
        (
            b"MEME version 4\nALPHABET= ACGT\nMOTIF a b\n"
            b"letter-probability matrix: alength= 4 w= 1 nsites= 9\n0.1 0.2 0.3 0.4\n",
            b">MA1 x\nA [ 1 2 ]\nC [ 0 2 ]\nG [ 3 2 ]\nT [ 4 2 ]\n",
            b"AC M1\nID x\nP0 A C G T\n01 1 2 3 4\n//\n",
            b"1 2 3\n4 5 6\n7 8 9\n1 1 1\n",
        ),
    ),
    "npz": Target(parsers.npz, (), (_archive(),)),
    "pairs": Target(
        read_pairs,
        ("data:families/PAIRS.tsv",),
        (b"id,msa,structure,chain,group,split\na,m,s,A,g,train\n",),
    ),
    "parameters": Target(parsers.parameters, (), (_archive(), _checkpoint())),
    "pdb": Target(
        parsers.structure,
        ("data:families/structure/*0.pdb",),
        (_ATOM, b"MODEL        1\n" + _ATOM + b"ENDMDL\n"),
    ),
    "phylip": Target(
        parsers.alignment(AlignmentFormat.PHYLIP),
        ("shared:parsers/phylip/*",),
        (b"2 3\na         MKV\nb         M-V\n",),
    ),
    "promoters": Target(parsers.promoters, (), (b">g1 I:5-9(+) flank=1\nACGTAC\n>g2\nAC\n",)),
    "proteins": Target(read_proteins, (), (b">g1\nMKV*\n>g2\nMA\n",)),
    "psicov": Target(parsers.alignment(AlignmentFormat.PSICOV), (), (b"MKV\nM-V\n",)),
    "regression": Target(
        read_regression,
        (),
        (
            b'{"format": "bioattn-contact-regression", "format_version": 1, "model_sha256": "a", '
            b'"weights": {"s": [1, 0.5]},'
            b' "bias": 0.1, "proteins": ["a"], "penalty": 1, "min_separation": 6}',
        ),
    ),
    "responses": Target(
        parsers.responses,
        ("data:tiny/responses.tsv",),
        (
            b"gene\theat\tcold\na\t1\tNA\nb\t2\t-3\n",
            b"gene_id;treatment;value\na;heat;0,5\n",
            b'"baseMean","log2FoldChange","lfcSE","stat","pvalue","padj"\n"a",5,1.5,0.1,2,0.01,NA\n',
            b"#gene\theat\na\t1\na\t2\n",
        ),
    ),
    "rr": Target(read_rr, (), (b"PFRMAT RR\nTARGET x\nMETHOD y\nMODEL 1\nMKVMKVMKV\n1 9 0 8 0.5\nEND\n",)),
    "settings": Target(
        parsers.settings, ("data:settings/*",), (b"[model]\nhops = 2\n[training]\nepochs = 3\nseed = 1\n",)
    ),
    "specs": Target(
        parsers.specs, (), (b"-150:-90", b"test=IV,XV validation=group:heat", b"0,2,3-5", b"CGG(n11)CCG|TGAC")
    ),
    "stockholm": Target(
        parsers.alignment(AlignmentFormat.STOCKHOLM),
        ("shared:parsers/stockholm/*",),
        (b"# STOCKHOLM 1.0\n#=GF ID x\n#=GS a OS y\na MKV\n#=GR a SS HHH\nb M-V\n#=GC RF x.x\n//\n",),
    ),
    "table": Target(parsers.table, ("data:tiny/*.tsv",), (b'a;b\n"x;y";0,5\n', b"a b\n1 2\n")),
    "tensors": Target(parsers.tensors, (), (_checkpoint(), _archive())),
    "treatments": Target(
        read_treatment_table, ("data:tiny/treatments.tsv",), (b"name,dose,agent\na,1,x\nb,,y\n",)
    ),
    "truth": Target(read_truth, ("data:tiny/truth.tsv",), ()),
    "unknown-alignment": Target(
        parsers.alignment(None),
        ("shared:parsers/nexus/*", "shared:parsers/a3m/*", "shared:parsers/clustal/*"),
        (b"MKV\nM-V\n", b"2 3\na MKV\nb M-V\n"),
    ),
}
"""By name; `fuzz_parsers.py` gives each the same time."""


def mutations(seeds: list[bytes], number: int, seed: int) -> Iterator[bytes]:
    """Deterministic damage: flipped bits, lost, doubled and swapped pieces, joined files, telling words."""
    rng = np.random.default_rng(seed)
    words = (
        b"9" * 5000,
        b"-1",
        b"1e999",
        b"nan",
        b"inf",
        b"\0",
        b"\t",
        b"\n",
        b"\r",
        b'"',
        b"'",
        b"=",
        b";",
        b">",
        b"#",
        b"\xff",
        b"\xc3",
        "é".encode(),
        "\u2028".encode(),
        b"%00",
        b"[" * 3000,
        b"{",
        b"}",
        b"2147483648",
        b"\x1f\x8b",
        b" ",
    )
    for _ in range(number):
        data = bytearray(seeds[rng.integers(len(seeds))])
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(len(data) + 1))
            other = int(rng.integers(len(data) + 1))
            first, last = min(place, other), max(place, other)
            kind = rng.integers(6)
            if kind == 0 and data:
                data[place % len(data)] ^= 1 << int(rng.integers(8))
            elif kind == 1:
                del data[first : min(last, first + 40)]
            elif kind == 2:
                data[first:first] = data[first : min(last, first + 80)]
            elif kind == 3:
                data = data[:place]
            elif kind == 4:
                data[place:place] = words[rng.integers(len(words))]
            else:
                end = min(len(data), place + int(rng.integers(1, 8)))
                data[place:end] = words[rng.integers(len(words))]
        yield bytes(data)
