"""Every parser on damaged files: refusals and nothing else. Mutations start from a small file of each format."""

import gzip
import io
import lzma
from collections import deque
from contextlib import closing, suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bioattn.alignments.contact_preparation import read_pairs
from bioattn.checks.record import read_check
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.annotation import read_annotation, read_bed, read_gff3
from bioattn.formats.fasta import read_fasta
from bioattn.formats.genome import open_genome
from bioattn.formats.meme import read_meme
from bioattn.formats.npz import NpzArrays
from bioattn.formats.rr import read_rr
from bioattn.formats.tables import open_table, parse_numbers
from bioattn.interpret.contacts import read_regression
from bioattn.interpret.motifs.expected_motifs import read_expected
from bioattn.interpret.track_layout import read_chromosome_lengths
from bioattn.io.files import read_lines
from bioattn.io.settings import read_toml
from bioattn.models.evaluation import read_history
from bioattn.models.evoformer.parameter_export import describe_parameters, validate_parameters
from bioattn.models.evoformer.parameter_files import open_arrays
from bioattn.models.model_folder import read_model_config
from bioattn.promoters.choices import ResponseColumns
from bioattn.promoters.chromosomes import read_aliases
from bioattn.promoters.homology import read_proteins
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.promoters.responses import ResponseSource, read_responses
from bioattn.promoters.treatments import read_treatment_table
from bioattn.simulate.truth import read_truth
from bioattn.store.inspection import as_json, as_text, inspect_file, validate_file
from bioattn.structures.chain import read_chain, read_chains
from tests.conftest import REPOSITORY

DATA = REPOSITORY / "data"


def genome(path):
    open_genome(path).index.unlink()


def table(path):
    for number, cells in open_table(path).rows():
        parse_numbers(cells, lambda column, number=number: f"{path}:{number}, column {column}")


def responses(path):
    read_responses([path])
    read_responses([ResponseSource(path, "heat")])
    read_responses([path], ResponseColumns(gene="gene_id", treatment=("treatment",), values=("value",)))


def structure(path):
    read_chains(path)
    read_chain(path)


def tensors(path):
    with closing(open_arrays(path)) as arrays:
        for name in arrays.shapes:
            arrays.read(name)


def npz(path):
    with closing(NpzArrays(path)) as arrays:
        for name in arrays.shapes:
            arrays.read(name)


def parameters(path):
    describe_parameters(path)
    validate_parameters(path)


def model_config(path):
    (path.parent / "config.json").write_bytes(path.read_bytes())
    read_model_config(path.parent, "promoter")


def inspected(path):
    validate_file(path)
    description = inspect_file(path)
    as_json(description)
    as_text(description, path.name)


def archive(version=None):
    """An `.npz`; version: of zip, which its directory asks for."""
    file = io.BytesIO()
    np.savez(file, a=np.arange(6, dtype="f4").reshape(2, 3), b=np.float64(1), c=np.array([1, 2], "i8"))
    data = bytearray(file.getvalue())
    if version is not None:
        data[data.rindex(b"PK\x01\x02") + 6] = version
    return bytes(data)


def checkpoint():
    file = io.BytesIO()
    torch.save({"model": {"module.a": torch.arange(6.0).reshape(2, 3), "module.b": torch.ones(1)}}, file)
    return file.getvalue()


GENE = b"I\t.\tgene\t1\t9\t.\t+\t.\tID=a\n"
ATOM = b"ATOM      1  CA  MET A   1      11.104   6.134  -6.504  1.00  0.00           C\n"
PARSERS = {
    "A3M": (read_alignment, b">q\nMK-v\n>s x\nMKaAV\n"),
    "aligned FASTA": (read_alignment, b">q\nMKV\n>r\nM-V\n"),
    "Clustal": (read_alignment, b"CLUSTAL W\n\na MKV 3\nb M-V 5\n"),
    "PHYLIP": (read_alignment, b"2 3\na         MKV\nb         M-V\n"),
    "PSICOV": (read_alignment, b"MKV\nM-V\n"),
    "Stockholm": (
        read_alignment,
        b"# STOCKHOLM 1.0\n#=GF ID x\n#=GS a OS y\na MKV\n#=GR a SS HHH\nb M-V\n#=GC RF x.x\n//\n",
    ),
    "any alignment": (read_alignment, b"2 3\na MKV\nb M-V\n"),
    "FASTA": (lambda path: deque(read_fasta(path), 0), b">a b\nACGT\n"),
    "genome": (genome, b">a b\nACGT\nAC\n>b\nAA\n"),
    "promoters": (lambda path: deque(read_promoters(path), 0), b">g1 I:5-9(+) flank=1\nACGTAC\n>g2\nAC\n"),
    "proteins": (read_proteins, b">g1\nMKV*\n>g2\nMA\n"),
    "GFF3": (read_gff3, b"##gff-version 3\n##sequence-region I 1 9\n" + GENE),
    "GTF": (read_annotation, b'I\tx\tgene\t1\t9\t.\t+\t.\tgene_id "a"; n 1;\n'),
    "BED": (read_bed, b"I\t0\t9\ta\t0\t+\n"),
    "aliases": (read_aliases, b"#a\nchrI\tI\nchrII\tII\n"),
    "chromosome lengths": (read_chromosome_lengths, b"I\t100\nII\t20\t5\n"),
    "MEME": (
        read_meme,
        b"MEME version 4\nALPHABET= ACGT\nMOTIF a b\nletter-probability matrix: alength= 4 w= 1 nsites= 9\n"
        b"0.1 0.2 0.3 0.4\n",
    ),
    "JASPAR": (read_meme, b">MA1 x\nA [ 1 2 ]\nC [ 0 2 ]\nG [ 3 2 ]\nT [ 4 2 ]\n"),
    "TRANSFAC": (read_meme, b"AC M1\nID x\nP0 A C G T\n01 1 2 3 4\n//\n"),
    "table": (table, b'a;b\n"x;y";0,5\n'),
    "responses": (responses, b"gene_id;treatment;value\na;heat;0,5\n"),
    "treatments": (read_treatment_table, b"name,dose,agent\na,1,x\nb,,y\n"),
    "truth": (read_truth, (DATA / "tiny" / "truth.tsv").read_bytes()[:600]),
    "pairs": (read_pairs, b"id,msa,structure,chain,group,split\na,m,s,A,g,train\n"),
    "expected motifs": (
        read_expected,
        b"factor\tconsensus\tcondition_group\tdirection\tjaspar_id\nMSN2\tAGGGG|CGG(n11)CCG\theat\tup\tMA1;MA2\n",
    ),
    "history": (read_history, b"epoch,training_loss,validation_loss\n0,1.5,2\n1,1.0,nan\n"),
    "RR": (read_rr, b"PFRMAT RR\nTARGET x\nMETHOD y\nMODEL 1\nMKVMKVMKV\n1 9 0 8 0.5\nEND\n"),
    "PDB": (structure, b"MODEL        1\n" + ATOM + b"ENDMDL\n"),
    "mmCIF": (
        structure,
        b"data_x\nloop_\n_atom_site.group_PDB\n_atom_site.id\n_atom_site.label_atom_id\nATOM 1 CA\n",
    ),
    "npz": (npz, archive()),
    "checkpoint": (tensors, checkpoint()),
    "parameters": (parameters, archive()),
    "model config": (model_config, (DATA / "models/evoformer-contacts/config.json").read_bytes()),
    "check": (
        read_check,
        b'{"format":"bioattn-check","format_version":"1.0","model_sha256":"","input_sha256":"",'
        b'"verdict":{"code":"used","sentence":"b","caveats":[],"rests_on":[]},"heads":[],'
        b'"measures":[{"name":"m","label":"m","value":0.5,"interval":null,"threshold":0.1,"passed":true,'
        b'"sentence":""}],"skipped":[],"settings":{"promoters":1,"treatments":2},'
        b'"curves":{"deletion":{"fraction":[0.1],"top":[1],"random":[0.5]}}}',
    ),
    "regression": (
        read_regression,
        b'{"format": "bioattn-contact-regression", "format_version": 1, "model_sha256": "a", "weights": '
        b'{"s": [1, 0.5]}, "bias": 0.1, "proteins": ["a"], "penalty": 1, "min_separation": 6}',
    ),
    "TOML": (read_toml, b"[model]\nhops = 2\n[training]\nepochs = 3\nseed = 1\n"),
    "inspected": (inspected, b'{"command": ["x"], "bioattn_version": "0"}'),
    "gzip": (lambda path: deque(read_lines(path), 0), gzip.compress(GENE)),
    "xz": (lambda path: deque(read_lines(path), 0), lzma.compress(GENE)),
}
"""By format: who reads it, and a small file."""
WORDS = [
    *(b"9" * 5000, b"-1", b"1e999", b"nan", b"\0", b"\t", b"\n", b"\r", b'"', b"'", b"=", b";", b">", b"#"),
    *(b"\xff", b"\xc3", "\u2028".encode(), b"%00", b"[" * 3000, b"{", b"}", b"2147483648", b"\x1f\x8b", b" "),
]


@st.composite
def damaged(draw, data):
    """A file with up to three pieces lost, doubled or replaced, or a bit flipped."""
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from([b"", bytes(data[start:stop]) * 2, *WORDS]) | st.binary(max_size=5))
        data[start:stop] = piece
        if data and draw(st.booleans()):
            data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


def read_or_refuse(parse, path, data):
    path.write_bytes(data)
    with suppress(BioattnError):
        parse(path)


@pytest.mark.parametrize("name", PARSERS)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    parse, seed = PARSERS[name]

    @settings(max_examples=40)
    @given(data=damaged(seed))
    def check(data):
        read_or_refuse(parse, tmp_path / "x", data)

    check()


"""What once came out of a parser other than a refusal, as small as it goes."""


def test_files_of_the_corpora_are_read_or_refused(shared, tmp_path):
    for path in sorted((shared / "data" / "parsers").glob("*/*")):
        for name in ("GTF", "inspected", "MEME", "promoters", "table", "any alignment"):
            read_or_refuse(PARSERS[name][0], tmp_path / "x", path.read_bytes())
        if path.parent.name in ("fastq", "newick", "qual"):  # formats that nobody reads here
            with pytest.raises(FormatError):
                read_alignment(path)
