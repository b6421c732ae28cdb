"""The settings of promoter models, which decide their shape, and of their training, which decide their weights."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from bioattn.attention.site import Contribution
from bioattn.choices import AttentionScore, Noise, PositionEncoding
from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.training.settings import OptimiserConfig


class Conditioning(StrEnum):
    """How the model combines treatment and sequence."""

    CONCAT = "concat"
    FILM = "film"
    CROSS = "cross"
    CROSS_ALL = "cross-all"
    RIDGE = "ridge"
    """A ridge regression on k-mer counts, which is not trained: what `--keep-best` writes where it is better."""


class TreatmentEncoding(StrEnum):
    ID = "id"
    FEATURES = "features"
    KERNEL = "kernel"
    """As id; one that was not trained is the mean of those that are like it."""
    MOLECULE = "molecule"
    """As features, and the molecule in the column smiles as a graph."""


BY_NAME = (TreatmentEncoding.ID, TreatmentEncoding.KERNEL)
"""Encodings with learned vectors for each training treatment."""
BY_MOLECULE = (TreatmentEncoding.KERNEL, TreatmentEncoding.MOLECULE)
"""Encodings that read molecules in a column smiles."""


class QuerySource(StrEnum):
    """Where the queries of `cross` come from; all but the first are controls that attention must beat."""

    TREATMENT = "treatment"
    """Each treatment has its own query."""
    SHARED = "shared"
    """All treatments share one learned query."""
    GAIN = "gain"
    """All treatments share one learned query; each has a logit of its own for the null key, for each head: it says
    how much it attends, not where."""
    POSITION = "position"
    """No query: weights depend only on the distance from the anchor."""
    UNIFORM = "uniform"
    """No query: all positions have equal weight."""


class Readout(StrEnum):
    """How `cross` makes a prediction of what was attended to."""

    OWN = "own"
    """Each treatment reads a bin its own way."""
    SHARED = "shared"
    """All treatments read a bin alike, as one signed number per head: what tells them apart is where they look."""


class Reader(StrEnum):
    """What a readout makes of the attended context."""

    LINEAR = "linear"
    """A weighted sum of what is read of each bin: a bin contributes its weight × its number."""
    HIDDEN = "hidden"
    """A hidden layer over it, for "only where both are there": contributions of a shared readout are integrated
    gradients, those of readers of each treatment are not known."""


class PositionBias(StrEnum):
    """What a head of `cross` adds to its logits for the distance from the anchor."""

    NONE = "none"
    SHARED = "shared"
    """A learned number for each bin."""
    TREATMENT = "treatment"
    """Beside it a curve over distance that each treatment has of its own: rules such as "only near the start"."""


class Stem(StrEnum):
    """How bases become bins."""

    CONV = "conv"
    """A convolution and the best match per bin: finds motifs of any width."""
    KMER = "kmer"
    """A learned vector per k-mer, summed per bin: contains k-mer regression; for small and noisy data."""
    BOTH = "both"
    """Half of the channels from each of the two stems."""
    PATCH = "patch"
    """A linear layer over the bases of each bin, as in vision transformers."""
    TRANSFORMER = "transformer"
    """The bins of `conv`, and self-attention between them: keys know the rest of the promoter."""
    PRETRAINED = "pretrained"
    """What a trained model of DNA makes of the tokens in each bin."""


class Strand(StrEnum):
    """On which strands the k-mers of the ridges in windows are counted."""

    AUTO = "auto"
    BOTH = "both"
    """A k-mer and its reverse complement are one: enhancers, most factors of eukaryotes."""
    FORWARD = "forward"


_IN_PAIRS = {PositionEncoding.ROTARY: "head_channels", PositionEncoding.SINUSOIDAL: "channels"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterModelConfig:
    """Architecture of a promoter model."""

    length: int
    """Bases of the window the model sees, flanks excluded."""
    conditioning: Conditioning = option("How treatment meets sequence.", default=Conditioning.CROSS)
    treatment_encoder: TreatmentEncoding = option(
        "Treatments known by id, by features of the treatment table, by these and their molecule, or "
        "by id and, where they were not trained, as the mean of those that are like them (kernel).",
        default=TreatmentEncoding.ID,
    )
    unconditional: bool = True
    """Whether a learned token for "treatment unknown" exists."""
    stem: Stem = option("How bases become bins.", default=Stem.CONV)
    stem_layers: int = 2
    """Layers of self-attention of the transformer stem."""
    position: PositionEncoding = PositionEncoding.ROTARY
    """Positions in the transformer stem's self-attention: none, sinusoidal, learned or rotary."""
    encoder: dict[str, Any] | None = None
    """Family and architecture of the pretrained stem's encoder."""
    train_encoder: bool = False
    """Whether the pretrained stem's encoder is trained too."""
    channels: int = 64
    """Channels of the stem and of the layers after it."""
    kernel: int = 15
    """Width of a first-layer filter in bases; odd."""
    pool: int = 8
    """Width of an attended position (bin) in bases."""
    both_strands: bool = True
    """Whether a filter also matches as its reverse complement."""
    kmer: int = 6
    """Length of the k-mers of the kmer stem."""
    kmer_dropout: float = 0.8
    """Share of the k-mers dropped in each training step; on counts this acts as a ridge penalty."""
    stem_dropout: float = 0.0
    """Share of the stem's channels dropped in each training step (`cross`); 0.3 by default for few promoters
    without a clear motif with readout = shared."""
    value_layers: int = 1
    """Convolutions over bins on the value path (`cross`, readout = own, reader = hidden) or in the trunk (`film`,
    `cross-all`)."""
    value_kernel: int = 5
    """Width of such a convolution in bins; odd."""
    key_layers: int = 0
    """Convolutions over bins before keys and values (`cross`; readout = shared: keys only): a control that makes
    maps useless."""
    treatment_channels: int = 32
    """Channels of a treatment embedding."""
    num_tokens: int = 4
    """Learned tokens per treatment (`cross-all` with the id encoder)."""
    num_heads: int = 4
    """Attention heads."""
    head_channels: int = 16
    """Channels of one head."""
    heads_left: tuple[tuple[int, ...], ...] = ()
    """For each attention site, the heads that pruning kept (`bioattn explain heads --prune-to`); empty: all."""
    hops: int = 1
    """How often the treatments query the positions (`cross`; Stacked Attention Networks)."""
    attention_score: AttentionScore = AttentionScore.DOT
    """dot, additive or gaussian."""
    attention_query: QuerySource = QuerySource.TREATMENT
    """treatment; shared, gain, position and uniform are controls."""
    position_bias: PositionBias = PositionBias.SHARED
    """What a head adds for the distance from the anchor (`cross`): none, shared or treatment (training's default
    with a query of each treatment)."""
    readout: Readout = option(
        "Whether each treatment reads what it attended to its own way, or all alike: then training's default is "
        "sink = true.",
        default=Readout.OWN,
    )
    reader: Reader = Reader.LINEAR
    """linear (a prediction is the sum of what bins contribute) or hidden (a layer over the attended context)."""
    sink: bool = False
    """Adds a learned key that stands for "nowhere" (a null key)."""
    hidden_channels: int = 128
    """Width of the readout's hidden layer."""
    dropout: float = 0.2
    """Dropout before and after the readout's hidden layer."""
    concat_channels: tuple[int, int] = (256, 64)
    """Channels of the two convolutions of `concat` (FUN-PROSE)."""
    concat_kernels: tuple[int, int] = (9, 13)
    """Kernel widths of the two convolutions, in bases and in first-layer bins."""
    concat_pools: tuple[int, int] = (19, 8)
    """Pooling widths after the two convolutions."""
    concat_condition_channels: int = 1024
    """Width of the treatment arm of `concat`."""
    concat_hidden: tuple[int, int, int] = (512, 256, 64)
    """Widths of the fused layers of `concat`."""
    concat_dropout: float = 0.398
    """Dropout after the first pooling of `concat`."""
    ridge_blocks: tuple[tuple[int, int, int, int], ...] = ()
    """Of each block of counts (`ridge`): length of its k-mers, strands they are counted on, windows, and 1 for
    logarithms of counts."""

    def __post_init__(self) -> None:
        kernels = ("kernel", "value_kernel")
        require(self, kernels, lambda value: value % 2 == 1, "be odd so that bins stay centred")
        sizes = (
            *("length", "channels", "kernel", "pool", "treatment_channels", "num_heads", "head_channels"),
            *("hops", "stem_layers"),
        )
        require(self, sizes, lambda value: value >= 1, "be at least 1")
        require(self, ("key_layers",), lambda value: value >= 0, "not be negative")
        if self.stem == Stem.BOTH:
            rule = "be even for stem = both, which takes half of them each"
            require(self, ("channels",), lambda value: value % 2 == 0, rule)
        if self.stem == Stem.TRANSFORMER and self.position in _IN_PAIRS:
            rule = f"be even for position = {self.position}, which takes channels in pairs"
            require(self, (_IN_PAIRS[self.position],), lambda value: value % 2 == 0, rule)
        kmers = "lie in 1..8 (a vector is learned for each k-mer)"
        require(self, ("kmer",), lambda value: 1 <= value <= 8, kmers)
        shares = ("dropout", "kmer_dropout", "stem_dropout", "concat_dropout")
        require(self, shares, lambda value: 0 <= value < 1, "lie in [0, 1)")
        for wrong, sentence in self._mistakes():
            if wrong:
                raise SettingsError(sentence)

    def _mistakes(self) -> Iterator[tuple[bool, str]]:
        """Settings that do not go together, or are for another conditioning or stem, and what to say of them."""
        query, bias, stem = self.attention_query, self.position_bias, self.stem
        conditioning, encoder = self.conditioning, self.treatment_encoder
        concat = conditioning == Conditioning.CONCAT
        yield (
            query == QuerySource.POSITION and bias == PositionBias.NONE,
            "attention_query = position needs position_bias = shared or treatment",
        )
        yield (
            query == QuerySource.GAIN and not (self.sink and bias == PositionBias.SHARED),
            "attention_query = gain needs sink = true and position_bias = shared",
        )
        yield (
            self.contribution is Contribution.GRADIENT and not self.sink,
            "--readout shared with hops = 2 or reader = hidden needs sink = true: contributions are counted from "
            "all weight on the null key",
        )
        yield (
            (self.encoder is not None) != (stem == Stem.PRETRAINED),
            "--stem pretrained and --encoder, the folder of a model of DNA, go together",
        )
        yield self.train_encoder and self.encoder is None, "train_encoder is for --stem pretrained"
        yield (
            self.length < self.pool,
            f"the promoters have {self.length} bases, less than one bin of pool = {self.pool}",
        )
        usual = {field.name: field.default for field in fields(self)}
        for name in ("readout", "reader", "hops", "stem", "attention_query", "key_layers"):
            value = getattr(self, name)
            yield (
                conditioning != Conditioning.CROSS and value != usual[name],
                f"{name} = {value} is for --conditioning cross, not {conditioning}",
            )
        yield (
            stem != Stem.TRANSFORMER and self.position != PositionEncoding.ROTARY,
            f"position = {self.position} is for --stem transformer, not {stem}",
        )
        yield (
            conditioning == Conditioning.CROSS_ALL and encoder in BY_NAME and self.num_tokens < 1,
            "cross-all needs at least two keys per treatment (num_tokens >= 1 plus the sink): over a single key "
            "softmax is 1 everywhere",
        )
        yield (
            concat and encoder in BY_MOLECULE,
            f"--treatment-encoder {encoder} is for --conditioning film, cross or cross-all",
        )
        first, second = self.concat_pools
        yield (
            concat and self.length < first * second,
            f"--conditioning concat pools {first} × {second} bases into one, the promoters have {self.length}; "
            "set concat_pools in the config",
        )

    @property
    def contribution(self) -> Contribution:
        """How it is known what a bin adds to the prediction."""
        if self.conditioning is Conditioning.RIDGE:
            return Contribution.PRODUCT
        if self.conditioning is not Conditioning.CROSS:
            return Contribution.NONE
        if self.readout == Readout.OWN:
            return Contribution.NONE if self.reader == Reader.HIDDEN else Contribution.PRODUCT
        summed = self.hops == 1 and self.reader == Reader.LINEAR
        return Contribution.PRODUCT if summed else Contribution.GRADIENT

    @property
    def stem_sites(self) -> int:
        """Number of attention sites in the stem, which come before those of the hops."""
        return self.stem_layers if self.stem == Stem.TRANSFORMER else 0

    def heads_at(self, site: int) -> tuple[int, ...]:
        """Numbers of the heads of the attention site number `site`."""
        return self.heads_left[site] if self.heads_left else tuple(range(self.num_heads))

    @property
    def num_bins(self) -> int:
        """Number of attended positions (bins); padding on the left lets the last one end at the anchor."""
        return -(-self.length // self.pool)

    @property
    def missing_bases(self) -> int:
        """Bases that the first bin lacks."""
        return self.num_bins * self.pool - self.length

    @property
    def bin_edges(self) -> tuple[int, ...]:
        """num_bins + 1 edges in bases from the window start; the first bin is the shorter one."""
        return (0, *(self.length - self.pool * i for i in range(self.num_bins - 1, -1, -1)))


class Loss(StrEnum):
    """What training minimises over the measured cells."""

    MSE = "mse"
    HUBER = "huber"
    BINARY = "binary"


class Metric(StrEnum):
    """What early stopping watches on the validation cells; the best epoch's weights are kept."""

    LOSS = "loss"
    PEARSON = "pearson"
    SPECIFIC_PEARSON = "specific-pearson"
    AUROC = "auroc"
    AVERAGE_PRECISION = "average-precision"


class FirstFilters(StrEnum):
    """What the first layer's filters are before training."""

    KMERS = "kmers"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig(OptimiserConfig):
    """How a promoter model is trained."""

    epochs: int = option("Passes over the training promoters at most.", default=40, min=1)
    batch_size: int = 64
    """Promoters per step, over all processes."""
    micro_batch_size: int | None = None
    """Promoters of one forward and backward pass in a process (gradient accumulation); default its whole share of
    the batch."""
    learning_rate: float = 2e-3
    warmup_fraction: float = 0.1
    loss: Loss | None = None
    """mse (default for regression), huber or binary (default for binary)."""
    huber_delta: float = 1.0
    """Where huber turns linear, in standard deviations of the targets."""
    metric: Metric | None = None
    """What early stopping watches; pearson by default, auroc for binary."""
    unconditional_probability: float = 0.1
    """Share of the treatments dropped in training (classifier-free); 0 for a model without that token."""
    treatments_per_step: int | None = None
    """Treatments sampled per step; default all for cross and concat, 8 for film and cross-all."""
    max_shift: int | None = None
    """Largest random shift of the window in bases; default the flank of the dataset."""
    reverse_complement: bool = False
    """Whether half of the training windows are reverse complements."""
    noise: Noise | None = None
    """masked or gaussian: promoters have the noise of diffusion models (for `generate promoters --classifier`)."""
    first_filters: FirstFilters = FirstFilters.KMERS
    """kmers (half of them start from k-mers that the responses follow; conv stem) or random."""
    warm_start: bool = False
    """Start the kmer stem and the linear readout from a ridge by component (`cross`, regression)."""

    def __post_init__(self) -> None:
        OptimiserConfig.__post_init__(self)
        counts = ("epochs", "batch_size", "micro_batch_size", "treatments_per_step")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(self, ("huber_delta",), lambda value: value > 0, "be above 0")
        require(self, ("unconditional_probability",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        require(self, ("max_shift",), lambda value: value >= 0, "not be negative")
