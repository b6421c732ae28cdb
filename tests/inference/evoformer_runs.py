"""Small untrained MSA/pair models in folders, an alignment, and `run evoformer` on them."""

import h5py
import torch

from bioattn.models.evoformer.config import EvoformerConfig, InputSettings, StructureModuleConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_files import load_parameters
from bioattn.models.evoformer.run import write_evoformer_model
from bioattn_cli.main import main

CPU = torch.device("cpu")


INPUTS = InputSettings(max_msa_clusters=5, max_extra_msa=7, num_recycles=1)


SHAPE = {
    "msa_channels": 16,
    "pair_channels": 8,
    "extra_msa_channels": 8,
    "single_channels": 12,
    "msa_heads": 2,
    "pair_heads": 2,
    "extra_msa_heads": 2,
    "outer_product_channels": 4,
    "triangle_multiplication_channels": 8,
    "num_blocks": 2,
    "num_extra_msa_blocks": 1,
}


STRUCTURE = StructureModuleConfig(
    num_layers=2, num_heads=2, head_channels=4, num_query_points=2, num_value_points=3, angle_channels=8
)


ROWS = [
    "MKTAYIAKQRQISFVKSHFSRQLEERLG",
    "MKTAYLAKQRNISFVKAHFSRQLEDRLG",
    "-KTSYIARQRQISWVKSHFSKQ--ERLG",
    "MRTAYIAKHRQVSFIKSHYSRQLEERMG",
    "MKSAYIGKQRQISFVRSHFSRELEERL-",
    "LKTAFIAKQKQITFVKSNFSRQLDERLG",
    "MKTAYIAKQRQLSFVKTHFARQLEEKLG",
    "MKTGYVAKQRQISYVKSHFSRQMEERLA",
    "MQTAYIAKNRQISFVKSHWSRQLEERIG",
    "MKTAYISKQRQISFVNSHFSRQLE--LG",
]


FILES = {"contacts.rr", "contacts.tsv", "distogram.h5", "scores.json"}


STRUCTURE_FILES = {"structure.pdb", "structure.cif"}


def make_model(folder, inputs=INPUTS, **settings):
    """A model with random weights, in a folder."""
    torch.manual_seed(3)
    model = EvoformerModel(EvoformerConfig(**{**SHAPE, "structure_module": STRUCTURE, **settings}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "normalise" not in name:
                parameter.normal_(std=0.3)
    folder.mkdir()
    write_evoformer_model(folder, model, inputs)
    return folder


def model_of(parameters, folder):
    """The model of a small file of parameters, whose structure module has two layers, in a folder."""
    folder.mkdir()
    write_evoformer_model(folder, *load_parameters(parameters, 2))
    return folder


def write_fasta(path, rows=ROWS):
    path.write_text("".join(f">row{number}\n{row}\n" for number, row in enumerate(rows)))
    return path


def run(*arguments):
    return main(["run", "evoformer", *map(str, arguments), "-q"])


def write_config(folder, text):
    """A settings file for --config."""
    path = folder / "run.toml"
    path.write_text(text)
    return path


def arrays(path):
    with h5py.File(path) as file:
        return {name: file[name][()] for name in file}
