"""Every command of bioattn as a Nextflow module and a Snakemake rule: the table, and the program that writes them.

    python workflows/commands.py

writes `nextflow/modules/local/bioattn/*/` and `snakemake/commands/workflow/Snakefile`. All modules have one form,
and so have all rules; what differs stands in `COMMANDS`. Tests compare the files with what this program writes and
run each script on the small data that `source` names.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

WORKFLOWS = Path(__file__).resolve().parent
MODULES = WORKFLOWS / "nextflow" / "modules" / "local" / "bioattn"
SNAKEFILE = WORKFLOWS / "snakemake" / "commands" / "workflow" / "Snakefile"
VERSION = "0.1.0"
EDAM = {
    ".fa": 1929,
    ".gff3": 1975,
    ".h5": 3590,
    ".h5ad": 3590,
    ".json": 3464,
    ".tsv": 3475,
    ".html": 2331,
    ".bed": 3003,
    ".svg": 3604,
}
"""EDAM's formats by suffix."""


@dataclass(frozen=True)
class Input:
    """A file or folder that a command reads."""

    name: str
    about: str
    source: tuple[str, ...] = ()
    """For tests: a path below `data`, or `module.output` of another module; several for several files."""
    option: str = ""
    """The option that takes it; empty for an argument."""
    pattern: str = ""
    """Names of such files or folders."""
    optional: bool = False
    """Whether `[]` stands for none."""
    by_sample: bool = False
    """Whether an optional file belongs to a sample; otherwise it is one for all, in a channel of its own."""
    of_shards: int = 1
    """For tests: `source` is run in so many shards."""
    of_model: str = ""
    """For tests: `source` is run with this `module.output` as its model."""
    of_promoters: str = ""
    """For tests: `source` is run on this path below `data` instead of promoters."""
    folder: bool = False
    file: str = ""
    """The file in a folder that the command is given."""

    @property
    def own_channel(self) -> bool:
        """Whether it is one for all samples."""
        return (self.optional and not self.by_sample) or self.option in ("--model", "--parameters")


@dataclass(frozen=True)
class Output:
    """A file or folder that a command writes."""

    name: str
    ending: str
    """What stands behind the prefix, such as `.tracks`."""
    about: str
    option: str = "--output"
    """The option that names it; empty when it follows from another one, `>` for standard output."""
    holds: tuple[str, ...] = ()
    """Of a folder: files that are always in it. Empty for a file."""


@dataclass(frozen=True)
class Command:
    """A command as a step of a pipeline."""

    words: str
    about: str
    keywords: tuple[str, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    label: str = "single"
    gpu: bool = False
    threads: bool = False
    sharded: bool = False
    """Whether a value such as `1/8` says which part of the inputs is taken."""
    fixed: str = ""
    """Options that are always given."""
    exports: tuple[str, ...] = ()
    """Environment variables for what would be written to the home folder, or guess the number of cores."""
    test_options: str = ""
    sample: str = "tiny"
    """Its name in tests."""
    library: str = ""
    """For tests: what must be installed beside bioattn."""

    @property
    def module(self) -> str:
        """As nf-core names modules: no space, no mark."""
        return re.sub("[ -]", "", self.words)

    @property
    def process(self) -> str:
        """The process of the module."""
        return f"BIOATTN_{self.module.upper()}"

    @property
    def rule(self) -> str:
        """The Snakemake rule."""
        return re.sub("[ -]", "_", self.words)

    @property
    def record(self) -> str:
        """The ending of the run record, beside the first output; empty where only standard output is written."""
        first = self.outputs[0]
        return f"{first.ending}.run.json" if first.option.startswith("--") else ""


PROMOTERS = Input(
    "promoters",
    "Promoter FASTA of bioattn/preparepromoters",
    ("preparepromoters.fasta",),
    pattern="*.{fa,fasta,fa.gz}",
)
MODEL = Input(
    "model", "Model folder of bioattn/trainpromoter", ("trainpromoter.model",), pattern="*.model", folder=True
)
LANGUAGE = replace(MODEL, about="Model folder of bioattn/trainlanguage", source=("trainlanguage.model",))
TRANSLATION = replace(
    MODEL, about="Model folder of bioattn/traintranslation", source=("traintranslation.model",)
)
DIFFUSION = replace(MODEL, about="Model folder of bioattn/traindiffusion", source=("traindiffusion.model",))
MOLECULE = replace(MODEL, about="Model folder of bioattn/trainmolecule", source=("trainmolecule.model",))
MOLECULES = Input(
    "table",
    "Table with a column of SMILES, or SDF",
    ("molecules/molecules.tsv",),
    pattern="*.{tsv,csv,sdf,tsv.gz,csv.gz,sdf.gz}",
)
DESIGNS = Input(
    "designs", "Designs of bioattn/generatepromoters", ("generatepromoters.designs",), pattern="*.fa"
)
EVOFORMER = Input(
    "model",
    "Model folder, AlphaFold parameters (.npz) or OpenFold state dict (.pt)",
    ("models/evoformer-contacts",),
    pattern="*",
)
DATASET = Input(
    "dataset",
    "Dataset that the model was trained on, of bioattn/preparedataset",
    ("preparedataset.dataset",),
    pattern="*.dataset.h5",
)
ATTENTION = Input(
    "attention",
    "Attention of bioattn/exportattention or bioattn/merge",
    ("exportattention.attention",),
    pattern="*.attention.h5",
)
ALIGNMENT_ATTENTION = replace(
    ATTENTION, about="Attention of bioattn/runevoformer", source=("runevoformer.attention",)
)
PREDICTION = Input(
    "prediction",
    "Prediction of bioattn/runevoformer",
    ("runevoformer.prediction",),
    pattern="*.prediction",
    folder=True,
)
STRUCTURE = Input(
    "structure",
    "Structure of the protein: PDB or mmCIF",
    ("families/structure/simulated000000.pdb",),
    pattern="*.{pdb,cif,pdb.gz,cif.gz}",
)
CONFIG = Input(
    "config", "TOML with any setting; `[]` for none", option="--config", pattern="*.toml", optional=True
)
ANNOTATION = Input(
    "annotation",
    "Genes: GFF3, GTF or BED6",
    ("tiny/annotation.gff3",),
    pattern="*.{gff3,gff,gtf,bed,gff3.gz,gff.gz,gtf.gz,bed.gz}",
)
FACTS = Input("facts", "Folder with facts.tsv and questions.tsv", ("cascade",), pattern="*", folder=True)
ANY = Input("file", "Any file or folder of bioattn", ("preparedataset.dataset",), pattern="*")
NUMBA = ('NUMBA_CACHE_DIR="\\$PWD/.numba"', "OMP_NUM_THREADS=${task.cpus}")
MATPLOTLIB = ('MPLCONFIGDIR="\\$PWD/.matplotlib"',)
MODEL_FILES = ("config.json", "model.safetensors")
SIMULATION = (
    *("genome.fa", "annotation.gff3", "responses.tsv", "treatments.tsv", "truth.tsv", "motifs.meme"),
    "simulation.json",
)


def plot(noun: str, about: str, *inputs: Input, **other: Any) -> Command:
    """A command that draws a figure."""
    drawn = Output("figure", f".{noun}.svg", "The figure")
    keywords = ("figure", "attention", noun)
    return Command(f"plot {noun}", about, keywords, inputs, (drawn,), exports=MATPLOTLIB, **other)


COMMANDS = (
    Command(
        "prepare promoters",
        "Cut the promoter of every gene of a genome, with a table of what became of each gene",
        ("genome", "annotation", "promoter"),
        (
            Input(
                "genome",
                "Genome, plain, gzip or bgzip",
                ("tiny/genome.fa",),
                pattern="*.{fa,fasta,fna,fa.gz,fasta.gz,fna.gz}",
            ),
            ANNOTATION,
        ),
        (
            Output("fasta", ".promoters.fa", "Promoter sequences"),
            Output("bed", ".promoters.bed", "Their places, without flanks", option=""),
            Output(
                "audit", ".promoters.audit.tsv", "Every gene: kept, trimmed or dropped, and why", option=""
            ),
        ),
        exports=('BIOATTN_CACHE="\\$PWD/.bioattn"',),
        test_options="--upstream 120 --downstream 0 --flank 10",
    ),
    Command(
        "prepare dataset",
        "Join promoters, responses and treatments to one dataset, split into training, validation and test genes",
        ("promoter", "expression", "treatment", "dataset"),
        (
            PROMOTERS,
            Input(
                "responses",
                "Responses of genes to treatments: one table, or one of DESeq2, edgeR or limma per contrast",
                ("tiny/responses.tsv",),
                pattern="*.{tsv,csv,txt,tsv.gz,csv.gz,txt.gz}",
            ),
            Input(
                "treatments",
                "Table of treatments and their features; `[]` for none",
                ("tiny/treatments.tsv",),
                option="--treatment-table",
                pattern="*.{tsv,csv,tsv.gz,csv.gz}",
                optional=True,
                by_sample=True,
            ),
        ),
        (
            Output("dataset", ".dataset.h5", "Dataset that a model is trained on"),
            Output(
                "audit", ".dataset.audit.tsv", "Every gene and treatment: kept or dropped, and why", option=""
            ),
        ),
        test_options="--split random --holdout test=0.4 --holdout validation=0.2",
    ),
    Command(
        "prepare translation",
        "Make a dataset of pairs of sequences for translation models, split without leakage",
        ("protein", "codon", "sequence to sequence", "dataset"),
        (
            Input(
                "pairs",
                "Two FASTA files with equal ids, a table, or a folder of bioattn/simulatetranslation",
                ("simulatetranslation.pairs",),
                pattern="*",
            ),
        ),
        (
            Output("dataset", ".dataset.h5", "Dataset that a model is trained on"),
            Output("audit", ".dataset.audit.tsv", "Every pair: kept or dropped, and why", option=""),
        ),
        test_options="--source-alphabet dna --target-alphabet dna --split record",
    ),
    Command(
        "prepare molecules",
        "Make a dataset of molecules with measured values, cleaned and split without leakage",
        ("molecule", "smiles", "dataset"),
        (MOLECULES,),
        (
            Output("dataset", ".dataset.h5", "Dataset that a model is trained on"),
            Output("audit", ".dataset.audit.tsv", "Every record: kept or dropped, and why", option=""),
        ),
        test_options="--split random",
        library="rdkit",
    ),
    Command(
        "prepare language",
        "Make a dataset of genomes, genes or proteins for language models, split without leakage",
        ("genome", "protein", "language model", "dataset"),
        (
            Input(
                "sequences",
                "FASTA files, plain, gzip or xz",
                ("tiny/genome.fa",),
                pattern="*.{fa,fasta,fna,faa,fa.gz,fasta.gz,fna.gz,faa.gz}",
            ),
        ),
        (
            Output("dataset", ".dataset.h5", "Dataset that a model is trained on"),
            Output("audit", ".dataset.audit.tsv", "Every record: kept or dropped, and why", option=""),
        ),
        test_options="--split position",
    ),
    Command(
        "prepare contacts",
        "Join alignments and structures to one dataset of contacts",
        ("protein", "alignment", "structure", "dataset"),
        (
            Input(
                "families",
                "Folder with PAIRS.tsv, and the alignments and structures that it names",
                ("families",),
                pattern="*",
                folder=True,
                file="PAIRS.tsv",
            ),
        ),
        (
            Output("dataset", ".dataset.h5", "Dataset that a model is trained on"),
            Output("audit", ".dataset.audit.tsv", "Every pair: kept or refused, and why", option=""),
        ),
        sample="simulated",
    ),
    Command(
        "prepare templates",
        "Lay known structures on a query, as templates of a structure prediction",
        ("protein", "structure", "template"),
        (
            Input(
                "query",
                "FASTA or alignment; its first sequence is the query",
                ("families/msa/simulated000000.a3m",),
                pattern="*",
            ),
            Input(
                "structures",
                "Structures of relatives: PDB or mmCIF",
                ("templates/helix.pdb",),
                pattern="*.{pdb,cif,pdb.gz,cif.gz}",
            ),
        ),
        (Output("templates", ".templates.h5", "Templates for bioattn/runevoformer"),),
        sample="simulated",
    ),
    Command(
        "prepare msa",
        "Centre an alignment on its query, filter it, and say how deep and diverse it is",
        ("alignment", "msa", "protein"),
        (
            Input(
                "alignment",
                "Alignment: A3M, A2M, aligned FASTA, Stockholm, Clustal, PHYLIP or PSICOV",
                ("families/msa/simulated000000.a3m",),
                pattern="*",
            ),
        ),
        (
            Output("alignment", ".prepared.a3m", "Prepared alignment"),
            Output("statistics", ".prepared.json", "Depth, Neff, gaps and coverage", option="--stats"),
        ),
        threads=True,
        test_options="--max-identity 0.9",
        sample="simulated",
    ),
    Command(
        "train promoter",
        "Train a model that predicts the response of every promoter to every treatment, with attention",
        ("promoter", "attention", "training", "expression"),
        (replace(DATASET, about="Dataset of bioattn/preparedataset"), CONFIG),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--epochs 2",
    ),
    Command(
        "train evoformer",
        "Train a model of alignments on distances, contacts and masked residues",
        ("protein", "alignment", "contacts", "training"),
        (
            replace(DATASET, about="Dataset of bioattn/preparecontacts", source=("preparecontacts.dataset",)),
            replace(CONFIG, source=("settings/evoformer-tiny.toml",)),
        ),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--steps 1",
        sample="simulated",
    ),
    Command(
        "train language",
        "Train a language model: an encoder, a decoder, or an encoder with a decoder",
        ("genome", "protein", "language model", "training"),
        (
            replace(DATASET, about="Dataset of bioattn/preparelanguage", source=("preparelanguage.dataset",)),
            Input(
                "start",
                "Model folder to go on from or to fine-tune, or a published one; `[]` for none",
                option="--from",
                optional=True,
                folder=True,
            ),
            Input(
                "targets",
                "Table of what to predict, to fine-tune; `[]` for none",
                option="--targets",
                pattern="*.{tsv,csv}",
                optional=True,
            ),
            replace(CONFIG, source=("settings/language-tiny.toml",)),
        ),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--steps 10",
    ),
    Command(
        "train molecule",
        "Train a model of molecules: a neural graph fingerprint, or graph attention",
        ("molecule", "smiles", "training"),
        (
            replace(
                DATASET, about="Dataset of bioattn/preparemolecules", source=("preparemolecules.dataset",)
            ),
            replace(CONFIG, source=("settings/molecule-tiny.toml",)),
        ),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        library="rdkit",
    ),
    Command(
        "train phyloformer",
        "Train a model of evolutionary distances on alignments with known trees",
        ("phylogeny", "distance", "alignment", "training"),
        (
            Input(
                "trees",
                "Folder with PAIRS.tsv, and the alignments and trees that it names",
                ("simulatetrees.trees",),
                pattern="*",
                folder=True,
                file="PAIRS.tsv",
            ),
            replace(CONFIG, source=("settings/phyloformer-tiny.toml",)),
        ),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
    ),
    Command(
        "train translation",
        "Train a translation model: from one sequence to another, recurrent or a transformer",
        ("protein", "codon", "sequence to sequence", "training"),
        (
            replace(
                DATASET, about="Dataset of bioattn/preparetranslation", source=("preparetranslation.dataset",)
            ),
            replace(CONFIG, source=("settings/translation-tiny.toml",)),
        ),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--steps 5",
    ),
    Command(
        "train memory",
        "Train a memory network: questions about facts, answered hop after hop",
        ("regulatory network", "question answering", "training"),
        (FACTS,),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--steps 5",
    ),
    Command(
        "run promoter",
        "Predict the responses of promoters to treatments with a trained model",
        ("promoter", "prediction", "expression"),
        (MODEL, PROMOTERS),
        (Output("predictions", ".predictions.tsv", "Predicted responses, genes by treatments"),),
        label="low",
        gpu=True,
        threads=True,
    ),
    Command(
        "run evoformer",
        "Predict contacts, distances and, where the parameters can, the structure of a protein from its alignment",
        ("protein", "contacts", "structure", "evoformer", "attention"),
        (
            Input(
                "alignment",
                "Alignment of bioattn/preparemsa, or any other",
                ("preparemsa.alignment",),
                pattern="*",
            ),
            Input(
                "templates",
                "Templates of bioattn/preparetemplates, for parameters that know them; `[]` for none",
                option="--templates",
                pattern="*.templates.h5",
                optional=True,
                by_sample=True,
            ),
            replace(EVOFORMER, option="--model"),
        ),
        (
            Output(
                "prediction",
                ".prediction",
                "Contacts, distances, scores and structures",
                holds=("scores.json",),
            ),
            Output("attention", ".attention.h5", "Attention of every head", option="--attention"),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--sites '*.msa_row'",
        sample="simulated",
    ),
    Command(
        "run language",
        "Score sequences with a language model, and write their embeddings",
        ("language model", "embedding", "likelihood"),
        (LANGUAGE, replace(PROMOTERS, name="sequences", about="FASTA", pattern="*")),
        (
            Output("scores", ".scores.tsv", "Log-likelihood, bits and perplexity of each sequence"),
            Output("embeddings", ".embeddings.h5", "Embeddings", option="--embeddings"),
        ),
        label="low",
        gpu=True,
        threads=True,
    ),
    Command(
        "train diffusion",
        "Train a model that writes promoters for chosen treatments",
        ("promoter", "design", "diffusion", "training"),
        (DATASET, replace(CONFIG, source=("settings/diffusion-tiny.toml",))),
        (
            Output(
                "model",
                ".model",
                "Model folder: weights, settings, metrics and model card",
                holds=MODEL_FILES,
            ),
        ),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--steps 10",
    ),
    Command(
        "generate promoters",
        "Write new promoters for chosen treatments",
        ("promoter", "design", "diffusion"),
        (DIFFUSION,),
        (Output("designs", ".designs.fa", "Designs; descriptions say what was asked for"),),
        label="low",
        gpu=True,
        threads=True,
        test_options="--number 20 --steps 4",
    ),
    Command(
        "run phyloformer",
        "Estimate evolutionary distances, and trees, from an alignment",
        ("protein", "phylogeny", "tree", "distance", "attention"),
        (
            Input(
                "alignment",
                "Alignment of bioattn/preparemsa, or any other",
                ("phyloformer/alignment.fa",),
                pattern="*",
            ),
            Input(
                "parameters",
                "Model folder of bioattn/trainphyloformer, or published parameters",
                ("phyloformer/parameters.ckpt",),
                option="--model",
                pattern="*",
            ),
        ),
        (
            Output(
                "phylogeny",
                ".phylogeny",
                "Distances and trees",
                holds=("bme.nwk", "distances.tsv", "nj.nwk", "phylogeny.json"),
            ),
            Output("attention", ".attention.h5", "Attention over sites and pairs", option="--attention"),
        ),
        label="medium",
        gpu=True,
        threads=True,
    ),
    Command(
        "run translation",
        "Write outputs of a translation model for sources",
        ("protein", "codon", "design", "sequence to sequence"),
        (TRANSLATION, replace(PROMOTERS, name="sources", about="FASTA of sources", pattern="*")),
        (Output("outputs", ".outputs.fa", "Outputs, with their log-likelihood"),),
        label="low",
        gpu=True,
        threads=True,
        test_options="--length 20",
    ),
    Command(
        "run molecule",
        "Predict values or classes of molecules",
        ("molecule", "smiles", "prediction"),
        (MOLECULE, MOLECULES),
        (Output("predictions", ".predictions.tsv", "Predictions, and notes on molecules"),),
        label="low",
        gpu=True,
        threads=True,
        library="rdkit",
    ),
    Command(
        "run memory",
        "Answer questions about facts, and say which fact each hop read",
        ("regulatory network", "question answering", "attention"),
        (replace(MODEL, about="Model folder of bioattn/trainmemory", source=("trainmemory.model",)), FACTS),
        (
            Output("answers", ".answers.tsv", "Answers, and the fact that each hop read most"),
            Output("attention", ".attention.h5", "Weights hop × fact", option="--attention"),
        ),
        label="low",
        gpu=True,
        threads=True,
    ),
    Command(
        "generate language",
        "Write new sequences, drawn from a decoder token by token",
        ("language model", "design", "sequence"),
        (LANGUAGE,),
        (Output("sequences", ".generated.fa", "New sequences"),),
        label="low",
        gpu=True,
        threads=True,
        test_options="--number 2 --length 12",
    ),
    Command(
        "export attention",
        "Write where a trained model looks in each promoter for each treatment, of all or of one shard",
        ("promoter", "attention", "hdf5"),
        (MODEL, PROMOTERS),
        (Output("attention", ".attention.h5", "Attention of every head"),),
        label="low",
        gpu=True,
        threads=True,
        sharded=True,
    ),
    Command(
        "export attribution",
        "Write attribution as the NumPy archives that TF-MoDISco-lite and tangermeme read",
        ("promoter", "attribution", "modisco"),
        (
            Input(
                "attribution",
                "Attribution of bioattn/explainattribution",
                ("explainattribution.attribution",),
                pattern="*.attribution.h5",
            ),
        ),
        (
            Output(
                "arrays",
                ".arrays",
                "One-hot sequences, contributions to each treatment, and tables of genes and treatments",
                holds=("sequences.npz", "genes.tsv", "treatments.tsv"),
            ),
        ),
    ),
    Command(
        "export contacts",
        "Read contacts from the row attention of a model",
        ("protein", "contacts", "attention"),
        (
            ALIGNMENT_ATTENTION,
            Input(
                "regression",
                "The weight of each head (`bioattn export contacts --fit`); `[]` for none",
                option="--regression",
                pattern="*.json",
                optional=True,
            ),
        ),
        (Output("contacts", ".contacts.tsv", "Pairs of residues, likeliest first"),),
        sample="simulated",
    ),
    Command(
        "export motifs",
        "Find the motifs that a model looks at, and say which treatment looks at which",
        ("motif", "attention", "promoter"),
        (
            ATTENTION,
            replace(PROMOTERS, option="--promoters"),
            Input(
                "database",
                "Motifs to compare with: MEME, JASPAR or TRANSFAC; `[]` for none",
                ("tiny/motifs.meme",),
                option="--database",
                pattern="*.{meme,jaspar,pfm,txt,transfac}",
                optional=True,
            ),
        ),
        (Output("motifs", ".motifs", "Motifs, matches, tests and logos", holds=("motifs.json",)),),
        label="low",
        exports=(*MATPLOTLIB, *NUMBA),
    ),
    Command(
        "export multiqc",
        "Write figures of results as sections of a MultiQC report",
        ("multiqc", "report", "qc"),
        (
            Input(
                "results",
                "Promoters or their audit, dataset, model, check, alignment statistics or prediction; one "
                "of each at most",
                (
                    *("trainpromoter.model", "preparepromoters.fasta", "preparepromoters.audit"),
                    *("preparedataset.dataset", "explaincheck.check"),
                ),
                pattern="*",
            ),
        ),
        (
            Output(
                "multiqc",
                ".multiqc",
                "Files for MultiQC: *_mqc.json and versions",
                holds=("bioattn_general_mqc.json",),
            ),
        ),
        fixed="--sample ${prefix}",
    ),
    Command(
        "export parameters",
        "Write the parameters of an MSA/pair model with the names and layouts of AlphaFold",
        ("protein", "evoformer", "alphafold"),
        (replace(EVOFORMER, source=("trainevoformer.model",)),),
        (Output("parameters", ".parameters.npz", "Parameters by AlphaFold's names"),),
        sample="simulated",
    ),
    Command(
        "export structure",
        "Paint attention on a structure, in the place of its B-factors",
        ("protein", "structure", "attention"),
        (ALIGNMENT_ATTENTION, STRUCTURE),
        (Output("structure", ".painted.pdb", "The structure; 100 is the residue most attended to"),),
        sample="simulated",
    ),
    Command(
        "export anndata",
        "Write attention as AnnData for scanpy: genes by treatments, with a map of each gene and treatment",
        ("attention", "anndata", "scanpy"),
        (ATTENTION,),
        (Output("anndata", ".h5ad", "AnnData of predictions and maps"),),
    ),
    Command(
        "export tracks",
        "Write attention along chromosomes for genome browsers, one track per treatment and strand",
        ("attention", "bigwig", "bedgraph", "genome browser"),
        (ATTENTION,),
        (
            Output(
                "tracks",
                ".tracks",
                "bigWig, bedGraph and tables, and tracks.json, which says what is what",
                holds=("tracks.json",),
            ),
        ),
    ),
    Command(
        "explain attribution",
        "Compute what each base of each promoter adds to the response to each treatment",
        ("promoter", "attribution", "mutagenesis"),
        (MODEL, PROMOTERS),
        (Output("attribution", ".attribution.h5", "A value for each base at each position"),),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--method gradient-input",
    ),
    Command(
        "explain heads",
        "Rank attention heads by their importance for what a model predicts",
        ("attention", "interpretability", "pruning"),
        (MODEL, DATASET),
        (Output("heads", ".heads", "Tables of the importance of heads", holds=("heads.tsv",)),),
        label="medium",
        gpu=True,
        threads=True,
    ),
    Command(
        "explain response-curve",
        "Smooth responses over dose or time, with what each measured treatment weighs",
        ("dose response", "time course", "kernel regression"),
        (
            Input("responses", "Genes × treatments", ("tiny/responses.tsv",), pattern="*.{tsv,csv,tsv.gz}"),
            Input(
                "treatments", "Table of times or doses", ("settings/times-tiny.tsv",), pattern="*.{tsv,csv}"
            ),
        ),
        (Output("curves", ".curves.json", "Curves and weights"),),
        test_options="--along minutes",
    ),
    Command(
        "explain motifs",
        "Score attention and attribution at known motifs, by condition",
        ("motif", "attention", "benchmark"),
        (
            Input(
                "results",
                "Attention and attribution over the same promoters",
                ("exportattention.attention", "explainattribution.attribution"),
                pattern="*.h5",
            ),
            Input(
                "expected",
                "Table of motifs and the conditions that should answer to them",
                ("settings/expected-tiny.tsv",),
                option="--expected",
                pattern="*.{tsv,csv}",
            ),
        ),
        (Output("motifs", ".known-motifs.tsv", "A row for each expected pair and signal"),),
        test_options="--shuffles 20",
    ),
    Command(
        "explain check",
        "Judge whether the attention of a model may be believed, without any truth",
        ("attention", "interpretability", "promoter"),
        (MODEL, PROMOTERS, replace(DATASET, option="--dataset")),
        (Output("check", ".check.json", "Verdict and what it rests on"),),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--samples 20",
    ),
    Command(
        "explain designs",
        "Check designed promoters: whether they do what was asked for, look real, and are new",
        ("promoter", "design", "diffusion", "quality control"),
        (DESIGNS, DIFFUSION, DATASET),
        (Output("check", ".designs.json", "Verdict and what it rests on"),),
        label="medium",
        gpu=True,
        threads=True,
        test_options="--samples 0",
    ),
    plot(
        "designs",
        "Draw what designs do against how real they look",
        Input(
            "check", "Check of bioattn/explaindesigns", ("explaindesigns.check",), pattern="*.designs.json"
        ),
    ),
    plot(
        "attention",
        "Draw attention by treatment along one promoter, the gene that the option --gene names",
        ATTENTION,
        test_options="--gene G01",
    ),
    plot(
        "contacts",
        "Draw a contact map, predicted above the diagonal, true below",
        PREDICTION,
        replace(STRUCTURE, option="--truth", about="Structure of the protein; `[]` for none", optional=True),
        sample="simulated",
    ),
    plot(
        "arcs",
        "Draw arcs over a sequence between the residues or tokens that attend to each other most",
        ALIGNMENT_ATTENTION,
        sample="simulated",
    ),
    plot(
        "pae",
        "Draw the predicted aligned error of a structure",
        Input(
            "prediction",
            "PAE: folder of bioattn/runevoformer, or JSON of AlphaFold DB or ColabFold",
            ("settings/pae-tiny.json",),
            pattern="*",
        ),
    ),
    plot(
        "plddt",
        "Draw pLDDT along predicted chains",
        Input(
            "predictions",
            "Folders of bioattn/runevoformer, structures with pLDDT as B-factor, or JSON of pLDDT",
            ("families/structure/simulated000000.pdb",),
            pattern="*",
        ),
        sample="simulated",
    ),
    plot(
        "alignment",
        "Draw decoder steps against source tokens",
        replace(ATTENTION, of_model="trainlanguage.model"),
    ),
    plot(
        "molecule",
        "Draw a molecule with its atoms coloured by what they contribute, or by attention",
        replace(ATTENTION, of_model="trainmolecule.model", of_promoters="molecules/molecules.tsv"),
        library="rdkit",
    ),
    plot(
        "response",
        "Draw responses over dose or time, and what each measured treatment weighs",
        Input(
            "curves",
            "Curves of bioattn/explainresponsecurve",
            ("explainresponsecurve.curves",),
            pattern="*.curves.json",
        ),
    ),
    plot("distogram", "Draw expected distances and how unsure they are", PREDICTION, sample="simulated"),
    plot("heads", "Draw the attention of every head", ATTENTION),
    plot("heatmap", "Draw attention of all treatments by position", ATTENTION),
    plot(
        "logos",
        "Draw motifs as sequence logos",
        Input(
            "motifs",
            "Motifs: MEME, JASPAR or TRANSFAC",
            ("tiny/motifs.meme",),
            pattern="*.{meme,jaspar,pfm,txt,transfac}",
        ),
    ),
    plot("training", "Draw losses and validation figures of trainings", MODEL),
    plot(
        "check",
        "Draw the verdict on the attention of a model",
        Input("check", "Verdict of bioattn/explaincheck", ("explaincheck.check",), pattern="*.check.json"),
    ),
    Command(
        "report",
        "Make one HTML page of any results of a model or a protein",
        ("report", "html", "attention"),
        (
            Input(
                "results",
                "Any results of bioattn of one model, or of one protein; their content says what they are",
                (
                    *("trainpromoter.model", "preparepromoters.fasta", "preparedataset.dataset"),
                    *("exportattention.attention", "explaincheck.check", "exportmotifs.motifs"),
                ),
                pattern="*",
            ),
            replace(
                ANNOTATION,
                about="GFF3, GTF or BED: names of genes, and genes a window reaches into; `[]` for none",
                option="--annotation",
                optional=True,
            ),
        ),
        (Output("html", ".report.html", "The page"),),
    ),
    Command(
        "inspect",
        "Say what a file of bioattn is and give its main figures",
        ("report", "qc", "hdf5"),
        (ANY,),
        (Output("description", ".inspect.json", "What the file is", option=">"),),
        fixed="--json",
    ),
    Command(
        "validate",
        "Check a file of bioattn against its schema; the task fails when it is not valid",
        ("validation", "qc", "hdf5"),
        (ANY,),
        (Output("findings", ".validate.txt", "A line for each finding, and the verdict", option=">"),),
    ),
    Command(
        "merge",
        "Join the attention of all shards to the file of one run; refuses one that is missing or doubled",
        ("attention", "hdf5", "merge"),
        (
            Input(
                "parts",
                "Attention files of all shards",
                ("exportattention.attention",),
                pattern="*.attention.h5",
                of_shards=2,
            ),
        ),
        (Output("attention", ".attention.h5", "Attention of all promoters"),),
    ),
    Command(
        "simulate promoters",
        "Make a genome whose promoters hold planted motifs, and the responses that follow from them",
        ("simulation", "promoter", "motif"),
        (),
        (Output("simulation", ".simulated", "Inputs and their truth", holds=SIMULATION),),
        test_options="--genes 20 --length 100",
    ),
    Command(
        "simulate language",
        "Make sequences in which a motif comes again, to see whether a model copies in context",
        ("simulation", "language model", "attention"),
        (),
        (
            Output(
                "sequences",
                ".sequences",
                "Sequences and where their motifs stand",
                holds=("sequences.fa", "truth.tsv", "simulation.json"),
            ),
        ),
        test_options="--sequences 20",
    ),
    Command(
        "simulate molecules",
        "Make molecules of which some hold a planted substructure that acts",
        ("simulation", "molecule", "benchmark"),
        (),
        (
            Output(
                "molecules",
                ".molecules",
                "Molecules with a measured value, and the atoms that act",
                holds=("molecules.tsv", "truth.tsv", "simulation.json"),
            ),
        ),
        test_options="--molecules 20",
        library="rdkit",
    ),
    Command(
        "simulate translation",
        "Make pairs of sequences with known truth and known alignment",
        ("simulation", "sequence to sequence", "alignment"),
        (),
        (
            Output(
                "pairs",
                ".pairs",
                "Sources, targets and their alignment",
                holds=("source.fa", "target.fa", "alignment.tsv", "simulation.json"),
            ),
        ),
        test_options="--pairs 40",
    ),
    Command(
        "simulate score",
        "Score attention against planted motifs",
        ("simulation", "attention", "benchmark"),
        (
            ATTENTION,
            Input("truth", "Planted sites (truth.tsv)", ("tiny/truth.tsv",), pattern="*.{tsv,tsv.gz}"),
        ),
        (Output("scores", ".scores.json", "How well attention lies on the planted sites"),),
    ),
    Command(
        "simulate trees",
        "Make alignments of proteins or DNA with their true trees",
        ("simulation", "phylogeny", "alignment"),
        (),
        (
            Output(
                "trees",
                ".trees",
                "Alignments, their trees, and a table of both",
                holds=("PAIRS.tsv", "simulation.json"),
            ),
        ),
        test_options="--count 10 --sequences 4-5 --sites 30",
    ),
    Command(
        "simulate msa",
        "Make protein families whose contacts are planted",
        ("simulation", "protein", "alignment"),
        (),
        (
            Output(
                "families",
                ".families",
                "Alignments, structures and the contacts that were planted",
                holds=("PAIRS.tsv", "simulation.json"),
            ),
        ),
        test_options="--families 1 --min-depth 10 --max-depth 20 --min-length 30 --max-length 30",
        sample="simulated",
    ),
    Command(
        "doctor",
        "Say what bioattn finds where it runs, and what stands in its way; the task fails when something does",
        ("qc", "environment", "gpu"),
        (),
        (Output("findings", ".doctor.json", "Versions, devices, memory, files", option=">"),),
        fixed="--json",
    ),
)
BY_MODULE = {command.module: command for command in COMMANDS}
VERSIONS = "\"bioattn --version | sed 's/bioattn //'\""


def main_nf(command: Command) -> str:
    """The process."""
    stem = "stem" if command.sharded else "prefix"
    tuple_inputs = ", ".join(
        ["val(meta)", *(f"path({each.name})" for each in command.inputs if not each.own_channel)]
    )
    inputs = [f"tuple {tuple_inputs}" if "," in tuple_inputs else "val meta"]
    inputs += [f"path {each.name}" for each in command.inputs if each.own_channel]
    inputs += ["val shard"] * command.sharded
    outputs = [(f'tuple val(meta), path("${{{stem}}}{each.ending}"),', each.name) for each in command.outputs]
    if command.record:
        outputs.append(('tuple val(meta), path("*.run.json"),', "record"))
    width = max(len(channel) for channel, _ in outputs)
    declared = [f"{channel:<{width}} emit: {name}" for channel, name in outputs]
    version = f"tuple val(\"${{task.process}}\"), val('bioattn'), eval({VERSIONS})"
    declared.append(f"{version}, topic: versions, emit: versions_bioattn")
    prefix = ['prefix = task.ext.prefix ?: "${meta.id}"']
    if command.sharded:
        prefix.append("stem = shard ? \"${prefix}.${shard.replace('/', 'of')}\" : prefix")
    defined = ["def args = task.ext.args ?: ''", *prefix]
    defined += [
        f"def {each.name}_option = {each.name} ? \"{each.option} ${{{each.name}}}\" : ''"
        for each in command.inputs
        if each.optional
    ]
    defined += ["def shard_option = shard ? \"--shard ${shard}\" : ''"] * command.sharded
    labels = [f"label 'process_{command.label}'", *["label 'process_gpu'"] * command.gpu]
    return f"""process {command.process} {{
    tag "$meta.id"
{_lines(labels, 4)}

    conda "${{moduleDir}}/environment.yml"
    container "bioattn:{VERSION}"

    input:
{_lines(inputs, 4)}

    output:
{_lines(declared, 4)}

    when:
    task.ext.when == null || task.ext.when

    script:
{_lines(defined, 4)}
    \"\"\"
{_lines(_script(command, stem), 4)}
    \"\"\"

    stub:
{_lines(prefix, 4)}
    \"\"\"
{_lines(_stub(command, stem), 4)}
    \"\"\"
}}
"""


def _lines(lines: Sequence[str], indent: int) -> str:
    return "\n".join(" " * indent + line if line else "" for line in lines)


def _script(command: Command, stem: str) -> list[str]:
    words = [
        f"${{{each.name}}}" + f"/{each.file}" * bool(each.file) for each in command.inputs if not each.option
    ]
    words += [
        f"{each.option} ${{{stem}}}{each.ending}" for each in command.outputs if each.option.startswith("--")
    ]
    words += [
        f"{each.option} ${{{each.name}}}" for each in command.inputs if each.option and not each.optional
    ]
    words += [command.fixed] * bool(command.fixed)
    words += ["--threads ${task.cpus}"] * command.threads
    words += [f"${{{each.name}_option}}" for each in command.inputs if each.optional]
    words += ["${shard_option}"] * command.sharded
    words += ["${args}"]
    words += [f"> ${{{stem}}}{each.ending}" for each in command.outputs if each.option == ">"]
    lines = [f"bioattn {command.words}", *(f"    {word}" for word in words)]
    exports = [f"export {each}" for each in command.exports]
    return [*exports, *[""] * bool(exports), *(f"{line} \\\\" for line in lines[:-1]), lines[-1]]


def _stub(command: Command, stem: str) -> list[str]:
    made = []
    for output in command.outputs:
        place = f"${{{stem}}}{output.ending}"
        made += (
            [f"mkdir {place}", *(f"touch {place}/{name}" for name in output.holds)]
            if output.holds
            else [f"touch {place}"]
        )
    return [*made, *[f"touch ${{{stem}}}{command.record}"] * bool(command.record)]


META = "Groovy Map containing sample information, e.g. `[ id:'sample1' ]`"
RECORD = Output("record", ".run.json", "Command, versions, digests of the inputs and wall time")


def meta_yml(command: Command) -> str:
    """What the module takes and gives, as nf-core describes it."""
    versions = _versions()
    lines = [f"name: bioattn_{command.module}", f'description: "{command.about}"', "keywords:"]
    lines += [f"  - {keyword}" for keyword in command.keywords]
    lines += [
        "tools:",
        "  - bioattn:",
        "      description: |",
        "        Attention models on biological sequences, with every attention map kept: promoters by",
        "        treatments, and protein alignments.",
        '      doi: "no DOI available"',
        '      licence: ["Apache-2.0"]',
        '      identifier: ""',
        "input:",
    ]
    together = [each for each in command.inputs if not each.own_channel]
    mark = "  - - " if together else "  - "
    indent = len(mark) - 2
    lines += [f"{mark}meta:", *_described(indent + 4, "map", META)]
    for each in together:
        lines += [
            f"{' ' * indent}- {each.name}:",
            *_file(indent + 4, each.pattern, each.about, each),
        ]
    for each in command.inputs:
        if each.own_channel:
            lines += [f"  - {each.name}:", *_file(6, each.pattern, each.about, each)]
    if command.sharded:
        about = "Part of the promoters, such as `1/8`; `''` for all. bioattn/merge joins them"
        lines += ["  - shard:", *_described(6, "string", about)]
    lines.append("output:")
    for output in [*command.outputs, *[RECORD] * bool(command.record)]:
        key = (
            "*.run.json"
            if output is RECORD
            else f"${{{'stem' if command.sharded else 'prefix'}}}{output.ending}"
        )
        lines += [f"  {output.name}:", "    - - meta:", *_described(10, "map", META), f'      - "{key}":']
        lines += _file(10, f"*{output.ending}", output.about, output)
    lines += ["  versions_bioattn:", *versions, "topics:", "  versions:", *versions]
    lines += ["authors:", '  - "bioattn contributors"', "maintainers:", '  - "bioattn contributors"']
    return "\n".join(lines) + "\n"


def _described(indent: int, kind: str, about: str) -> list[str]:
    return [" " * indent + f"type: {kind}", " " * indent + f'description: "{about}"']


def _file(indent: int, pattern: str, about: str, each: Input | Output) -> list[str]:
    is_folder = each.folder if isinstance(each, Input) else bool(each.holds)
    more = [f'pattern: "{pattern}"']
    more += ["optional: true"] * (isinstance(each, Input) and each.optional)
    if not is_folder:
        # Of `*.{fa,fasta,fa.gz}` and `*.promoters.fa` the first format counts.
        formats = [n for suffix, n in EDAM.items() if re.search(rf"[.{{]{suffix[1:]}([,}}]|$)", pattern)]
        more += ["ontologies: []"]
        if formats:
            more[-1:] = ["ontologies:", f'  - edam: "http://edamontology.org/format_{formats[0]}"']
    return [
        *_described(indent, "directory" if is_folder else "file", about),
        *(" " * indent + line for line in more),
    ]


def _versions() -> list[str]:
    about = {
        '"${task.process}"': ("string", "The name of the process"),
        "bioattn": ("string", "The name of the tool"),
        VERSIONS: ("eval", "The expression to obtain the version of the tool"),
    }
    lines = []
    for name, (kind, description) in about.items():
        lines += [f"      - {name}:", f"          type: {kind}", f"          description: {description}"]
    return ["    - - " + lines[0].strip(" -"), *lines[1:]]


ENVIRONMENT = f"""# bioattn is on no public index yet: point pip to a folder with its wheel,
# PIP_FIND_LINKS=/folder/with/wheel nextflow run … -profile conda
channels:
  - conda-forge
  - bioconda
dependencies:
  - conda-forge::python>=3.11
  - conda-forge::pip
  - pip:
      - bioattn[all]=={VERSION}
"""


def upstream(command: Command) -> list[Command]:
    """The commands whose outputs its test needs, in the order in which they run."""
    found: list[Command] = []
    for source in (source for each in command.inputs for source in each.source if "/" not in source):
        if "." in source:
            before = BY_MODULE[source.partition(".")[0]]
            found += [each for each in [*upstream(before), before] if each not in found]
    return found


def nf_test(command: Command) -> str:
    """The nf-test of the module, real and as a stub."""
    before = upstream(command)
    # What is merged must have been written as a part, if only as the one of one.
    shard = "1/1" if any(each.of_shards > 1 for each in command.inputs) else ""
    setup = []
    for each in before:
        setup += [f'run("{each.process}") {{', f'    script "../../{each.module}/main.nf"']
        setup += [f"    {line}" for line in _process(each, shard)] + ["}"]
    tags = ["modules", "modules_local", "bioattn", *(f"bioattn/{each.module}" for each in [command, *before])]
    lines = [f'name "Test Process {command.process}"', 'script "../main.nf"', f'process "{command.process}"']
    lines += ['config "./nextflow.config"', "", *(f'tag "{tag}"' for tag in tags)]
    if setup:
        lines += ["", "setup {", *(f"    {line}" for line in setup), "}"]
    return "\n".join(
        ["nextflow_process {", "", _lines([*lines, *_test(command), *_test(command, stub=True)], 4), "}\n"]
    )


def _test(command: Command, *, stub: bool = False) -> list[str]:
    exists = ".every { _meta, path -> file(path).exists() } },"
    checks = [f"{{ assert process.out.{output.name}{exists}" for output in command.outputs]
    checks.append(
        "{ assert snapshot(process.out.findAll { key, _val -> key.startsWith('versions') }).match() }"
    )
    then = ["assert process.success", "assertAll(", *(f"    {check}" for check in checks), ")"]
    return [
        *("", f'test("data of the project{" - stub" * stub}") {{', ""),
        *(['    options "-stub"', ""] if stub else []),
        *("    when {", *(f"        {line}" for line in _process(command)), "    }", ""),
        *("    then {", *(f"        {line}" for line in then), "    }", "}"),
    ]


def _process(command: Command, shard: str = "") -> list[str]:
    """`process { … }` of an nf-test, which says what the module is given; shard: which part, if it takes one."""
    together = [each for each in command.inputs if not each.own_channel]
    refs = list(dict.fromkeys(source for each in together for source in each.source if _emit(source)))
    names = {source: source.partition(".")[2] for source in refs}
    elements = [_element(each, names) for each in together]
    if not refs:
        meta = f"[ id:'{command.sample}' ]"
        given = [f"[{', '.join([meta, *elements])}]" if elements else meta]
    else:
        chain = _emit(refs[0]) + "".join(f".join({_emit(source)})" for source in refs[1:])
        listed = ", ".join(names.values())
        made = f"{{ meta, {listed} -> [meta, {', '.join(elements)}] }}"
        given = [chain if elements == list(names.values()) else f"{chain}.map {made}"]
    given += [_element(each, {}) for each in command.inputs if each.own_channel]
    given += [f"'{shard}'"] * command.sharded
    inputs = [f"    input[{number}] = {each}" for number, each in enumerate(given)]
    return ["process {", '    """', *inputs, '    """', "}"]


def _emit(source: str) -> str:
    """`PROCESS.out.name` for `module.output`, nothing for a path."""
    module, _, name = source.partition(".")
    return f"{BY_MODULE[module].process}.out.{name}" if module in BY_MODULE else ""


def _element(each: Input, names: dict[str, str]) -> str:
    found = [
        names.get(source) or f'file("${{projectDir}}/../../data/{source}", checkIfExists: true)'
        for source in each.source
    ]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def test_config(command: Command) -> str:
    """Options of the module and of those before it in its nf-test."""
    lines = []
    for each in [*upstream(command), command]:
        if each.test_options:
            lines += [
                f"    withName: '{each.process}' {{",
                f'        ext.args = "{each.test_options}"',
                "    }",
            ]
    return "\n".join(["process {", *lines, "}"]) + "\n"


def snakefile() -> str:
    """A rule for each command, to be taken over by `use rule`."""
    return SNAKEFILE_HEAD + "".join(f"\n\n{_rule(command)}" for command in COMMANDS)


SNAKEFILE_HEAD = '''# A rule for each command of bioattn, for other workflows. Written by workflows/commands.py.
#
# module bioattn:
#     snakefile: "workflows/snakemake/commands/workflow/Snakefile"
#     config: config
#
# use rule export_tracks from bioattn with:
#     input:
#         attention="my/attention.h5",
#
# Files of a user are looked for in resources/{sample}/, results stand in results/{sample}/RULE/. The setting RULE
# holds more options, such as `export_tracks: "--treatment heat"`.

import shlex


def option(name, files):
    """`name files` for the shell, or nothing where there are none."""
    files = [files] if isinstance(files, str) else files or []
    return " ".join([name, *map(shlex.quote, files)]) if files else ""
'''


def _rule(command: Command) -> str:
    inputs = [f"{each.name}={_rule_input(each)}," for each in command.inputs]
    place = f"results/{{sample}}/{command.rule}"
    outputs = []
    for output in command.outputs:
        path = f'"{place}/{output.ending[1:]}"'
        outputs.append(f"{output.name}={f'directory({path})' if output.holds else path},")
    outputs += [f'record="{place}/{command.record[1:]}",'] * bool(command.record)
    optional = [each for each in command.inputs if each.optional]
    params = [
        f'{each.name}=lambda wildcards, input: option("{each.option}", input.get("{each.name}")),'
        for each in optional
    ]
    params.append(f'options=config.get("{command.rule}", ""),')
    words = [f"bioattn {command.words}"]
    words += [
        f"{{input.{each.name}:q}}" + f"/{each.file}" * bool(each.file)
        for each in command.inputs
        if not each.option
    ]
    words += [
        f"{each.option} {{output.{each.name}:q}}" for each in command.outputs if each.option.startswith("--")
    ]
    words += [
        f"{each.option} {{input.{each.name}:q}}"
        for each in command.inputs
        if each.option and not each.optional
    ]
    words += [command.fixed.replace("${prefix}", "{wildcards.sample:q}")] * bool(command.fixed)
    words += ["--threads {threads}"] * command.threads
    words += [f"{{params.{each.name}}}" for each in optional] + ["{params.options}"]
    printed = [output.name for output in command.outputs if output.option == ">"]
    said = f"> {{output.{printed[0]}:q}} 2> {{log:q}}" if printed else "> {log:q} 2>&1"
    sections = {
        "input": inputs,
        "output": outputs,
        "log": [f'"logs/{{sample}}/{command.rule}.log",'],
        "conda": ['"envs/bioattn.yaml"'],
        "container": ['config.get("container")'],
        "params": params,
        "shell": [f'"{" ".join(words)}"', f'" {said}"'],
    }
    text = f"rule {command.rule}:\n"
    for name, lines in sections.items():
        if name == "params":
            text += f"    threads: {THREADS[command.label]}\n"
        if lines:
            text += f"    {name}:\n{_lines(lines, 8)}\n"
    return text


THREADS = {"single": 1, "low": 2, "medium": 6}
"""As nextflow/conf/base.config."""


def _rule_input(each: Input) -> str:
    paths = []
    for source in each.source:
        module, _, name = source.partition(".")
        if module in BY_MODULE:
            before = BY_MODULE[module]
            ending = next(output.ending for output in before.outputs if output.name == name)
            paths.append(f'"results/{{sample}}/{before.rule}/{ending[1:]}"')
        else:
            paths.append(f'"resources/{{sample}}/{Path(source).name}"')
    return paths[0] if len(paths) == 1 and not each.optional else f"[{', '.join(paths)}]"


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, and its text."""
    for command in COMMANDS:
        folder = MODULES / command.module
        yield folder / "main.nf", main_nf(command)
        yield folder / "meta.yml", meta_yml(command)
        yield folder / "environment.yml", ENVIRONMENT
        yield folder / "tests" / "main.nf.test", nf_test(command)
        yield folder / "tests" / "nextflow.config", test_config(command)
    yield SNAKEFILE, snakefile()
    # Each workflow is a folder that stands alone.
    environment = Path("workflow", "envs", "bioattn.yaml")
    yield SNAKEFILE.parents[1] / environment, (SNAKEFILE.parents[2] / "promoters" / environment).read_text()


if __name__ == "__main__":
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
