"""Every parser of text and archives as a function of one file: what is fuzzed (`targets.py` has the seeds)."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from bioattn.errors import BioattnError
from bioattn.formats.alignment_file import AlignmentFormat, read_alignment
from bioattn.formats.fasta import read_fasta
from bioattn.formats.genome import open_genome
from bioattn.formats.npz import NpzArrays
from bioattn.formats.nucleotides import encode
from bioattn.formats.tables import open_table, parse_numbers
from bioattn.io.files import read_json, read_lines


def exhaust(items: Iterator[object]) -> None:
    """Take everything an iterator gives."""
    deque(items, maxlen=0)


def genome(path: Path) -> None:
    index = path.with_name("fuzz.genome")
    index.unlink(missing_ok=True)
    genome = open_genome(path, index=index)
    streamed = {record.name: encode(record.sequence, record.name) for record in read_fasta(path)}
    assert list(streamed) == genome.names
    for number, codes in enumerate(streamed.values()):
        window = genome.windows(np.array([number]), np.array([-1]), len(codes) + 2)[0]
        np.testing.assert_array_equal(window[1:-1], codes)


def table(path: Path) -> None:
    reader = open_table(path)
    for number, cells in reader.rows():
        parse_numbers(cells, lambda column, number=number: f"{path}:{number}, column {column}")


def responses(path: Path) -> None:
    from bioattn.promoters.responses import ResponseColumns, ResponseSource, read_responses

    read_responses([path])
    read_responses([ResponseSource(path, "heat")])
    read_responses([path], ResponseColumns(gene="gene_id", treatment="treatment", values=("value",)))


def promoters(path: Path) -> None:
    from bioattn.promoters.promoter_fasta import read_promoters

    exhaust(read_promoters(path))


def structure(path: Path) -> None:
    from bioattn.structures.chain import read_chain, read_chains

    read_chains(path)
    read_chain(path)


def mapping(path: Path) -> None:
    from bioattn.structures.chain import Chain
    from bioattn.structures.column_mapping import read_mapping

    chain = Chain(
        name="A",
        letters="MKVA",
        residue_names=["MET", "LYS", "VAL", "ALA"],
        numbers=[1, 2, 3, 3],
        insertion_codes=["", "", "", "A"],
        ca=np.zeros((4, 3), np.float32),
        cb=np.zeros((4, 3), np.float32),
        bfactors=np.zeros(0, np.float32),
        atom37=np.full((4, 37, 3), np.nan, np.float32),
        num_missing_cb=0,
    )
    read_mapping(path, chain, 40)


def npz(path: Path) -> None:
    with closing(NpzArrays(path)) as file:
        for name in file.shapes:
            file.read(name)


def parameters(path: Path) -> None:
    from bioattn.models.evoformer.parameters.export import describe_parameters, validate_parameters

    describe_parameters(path)
    validate_parameters(path)


def tensors(path: Path) -> None:
    from bioattn.models.evoformer.parameters.arrays import open_arrays

    arrays = open_arrays(path)
    for name in arrays.shapes:
        arrays.read(name)
    arrays.close()


def settings(path: Path) -> None:
    from bioattn.alignments.contact_preparation import ContactSettings
    from bioattn.io.config_file import build, read_toml
    from bioattn.models.evoformer.config import EvoformerConfig
    from bioattn.models.evoformer.training.config import EvoformerTrainingConfig
    from bioattn.models.promoter.config import PromoterModelConfig
    from bioattn.models.promoter.training.config import TrainingConfig

    content = read_toml(path)
    kinds = {
        "model": (PromoterModelConfig, EvoformerConfig),
        "training": (TrainingConfig, EvoformerTrainingConfig),
        "contacts": (ContactSettings,),
    }
    for name, table in content.items():
        for kind in kinds.get(name, ()):
            if isinstance(table, dict):
                try:
                    build(kind, table, f"{path} [{name}]")
                except BioattnError:
                    continue


def model_config(path: Path) -> None:
    from bioattn.io.config_file import build
    from bioattn.models.evoformer.folder import read_evoformer_config
    from bioattn.models.model_folder import check_model_config, read_model_config
    from bioattn.models.promoter.config import PromoterModelConfig

    content = read_json(path)
    check_model_config(path, content)
    folder = path.parent
    (folder / "config.json").write_bytes(path.read_bytes())
    for parse in (
        lambda: read_model_config(folder, "promoter"),
        lambda: read_evoformer_config(folder),
        lambda: build(PromoterModelConfig, content["architecture"], str(path)),
    ):
        try:
            parse()
        except (BioattnError, KeyError):  # the architecture may be missing: `load_promoter_model` says so
            continue


def treatments_of_a_model(path: Path) -> None:
    from bioattn.errors import FormatError
    from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary

    stored = read_json(path)
    try:
        TreatmentVocabulary.from_json(stored["vocabulary"])
    except (KeyError, TypeError, ValueError) as error:  # what `load_promoter_model` turns into a sentence
        raise FormatError(str(error) or "x") from error


def motif_tables(path: Path) -> None:
    from bioattn.interpret.motifs.motif_folder import read_motif_export

    folder = path.parent
    for name in ("motifs.tsv", "treatments.tsv"):
        (folder / name).write_bytes(path.read_bytes())
    read_motif_export(folder)


def inspect(path: Path) -> None:
    from bioattn.store.inspection import as_json, as_text, inspect_file, validate_file

    validate_file(path)
    description = inspect_file(path)
    as_json(description)
    as_text(description, path.name)


def lines_file(path: Path) -> None:
    exhaust(read_lines(path))


def specs(path: Path) -> None:
    from bioattn.choices import parse_heads
    from bioattn.figures.promoter_picture import parse_region
    from bioattn.interpret.known_motifs.expected_motifs import parse_consensus
    from bioattn.promoters.splits import parse_holdouts

    text = path.read_bytes().decode("utf-8", "replace")
    for parse in (
        lambda: parse_region(text, 200, 400),
        lambda: parse_holdouts([text], True),
        lambda: parse_heads(text),
        lambda: parse_consensus(text),
    ):
        with suppress(BioattnError):
            parse()


def alignment(kind: AlignmentFormat | None) -> Callable[[Path], None]:
    def parse(path: Path) -> None:
        alignment = read_alignment(path, format=kind)
        assert alignment.residues.shape == (len(alignment.names), alignment.num_columns)

    return parse
