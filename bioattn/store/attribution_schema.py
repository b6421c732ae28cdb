"""What an attribution HDF5 file holds: names, chunks and sizes (`docs/formats/attribution.md`)."""

from dataclasses import dataclass

from bioattn.store.choices import Method
from bioattn.store.sample_parts import FIXED_BYTES, OVERHEAD_BYTES_PER_SAMPLE
from bioattn.store.schema import BAND_BYTES, CHUNK_BYTES

ATTRIBUTION_FORMAT = "bioattn-attribution"
ATTRIBUTION_PARTS_FORMAT = "bioattn-attribution-parts"
ATTRIBUTION_VERSION = "1.0"
ATTRIBUTION = "attribution"
VALUES = "values"
SEQUENCE = "sequence"
GAP = "completeness_gap"
VALUE_DIMS = ("sample", "treatment", "position", "base")
BASES = ("A", "C", "G", "T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionLayout:
    """Sizes of an attribution file."""

    method: Method
    settings: str
    """What else decides the values, for example `steps=50 baseline=uniform`; empty for nothing."""
    num_treatments: int
    window_length: int

    @property
    def has_gap(self) -> bool:
        """Whether the method promises a sum and the file says how far from it the sums are."""
        return self.method is Method.INTEGRATED_GRADIENTS

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of the values of one sample."""
        return 4 * len(BASES) * self.num_treatments * self.window_length

    def chunk(self, num_samples: int) -> tuple[int, int, int, int]:
        """Whole promoters of one treatment, so that one treatment of all genes is read without the others."""
        of_treatment = 4 * len(BASES) * self.window_length
        together = max(1, min(CHUNK_BYTES // of_treatment, BAND_BYTES // self.bytes_per_sample))
        return (min(max(1, num_samples), together), 1, self.window_length, len(BASES))

    def stored_bytes(self, num_samples: int) -> int:
        """Bytes of the finished file, to a few percent; HDF5 stores whole chunks."""
        samples = self.chunk(num_samples)[0]
        padded = -(-num_samples // samples) * samples
        small = 4 * self.num_treatments * (2 if self.has_gap else 1)
        others = num_samples * (self.window_length + small + 3 * OVERHEAD_BYTES_PER_SAMPLE)
        return padded * self.bytes_per_sample + others + FIXED_BYTES
