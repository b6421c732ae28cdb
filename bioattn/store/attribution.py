"""Attribution: a file of results with one group, `attribution` (`docs/formats/attribution.md`)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.attention.site import Axis
from bioattn.choices import Method
from bioattn.store import schema
from bioattn.store.contents import Contents, LabelledArray
from bioattn.store.reader import Choice, Names, Results
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS

if TYPE_CHECKING:
    from contextlib import ExitStack

ATTRIBUTION, VALUES, SEQUENCE, GAP = "attribution", "values", "sequence", "completeness_gap"
BASES = ("A", "C", "G", "T")


def attribution_file_layout(
    method: Method,
    settings: str,
    treatments: Sequence[str],
    *,
    model_sha256: str,
    attributes: Mapping[str, schema.Attribute],
) -> schema.FileLayout:
    """The layout of an attribution file.

    settings: what else decides the values, such as `steps=50 baseline=uniform`; attributes: of the windows
    (`bioattn.store.windows.window_attributes`).
    """
    window_length = attributes["window_length"]
    assert isinstance(window_length, int)
    axes = (
        Axis("treatment", coordinates=tuple(treatments)),
        Axis(schema.POSITION, size=window_length),
        Axis("base", coordinates=BASES),
    )
    long_name = "what each base would add to the prediction, mean over bases 0"
    arrays = [
        schema.Array(VALUES, "float32", ("treatment", schema.POSITION, "base"), long_name),
        schema.Array(SEQUENCE, "uint8", (schema.POSITION,), "0 A, 1 C, 2 G, 3 T, 4 N"),
    ]
    if method is Method.INTEGRATED_GRADIENTS:
        missing = "f(promoter) - f(baseline) - sum of contributions"
        arrays.append(schema.Array(GAP, "float32", ("treatment",), missing))
    values = schema.GroupLayout(path=ATTRIBUTION, axes=axes, arrays=tuple(arrays))
    return schema.FileLayout(
        format=schema.ATTRIBUTION_FORMAT,
        inputs=PROMOTERS,
        model_sha256=model_sha256,
        attributes={**attributes, "method": str(method), "method_settings": settings},
        columns=PROMOTER_COLUMNS,
        groups=(values, schema.predictions_layout(treatments)),
    )


class Attribution(Results):
    """What each base of a promoter adds to the prediction."""

    _format = schema.ATTRIBUTION_FORMAT

    def __init__(self, contents: Contents, close: "ExitStack | None" = None) -> None:
        super().__init__(contents, close)
        self.method = str(contents.layout.attributes.get("method", ""))
        """`ism`, `gradient-input` or `integrated-gradients`."""
        self.method_settings = str(contents.layout.attributes.get("method_settings", ""))

    def values(self, *, gene: Choice = None, treatment: Names = None) -> NDArray[np.float32]:
        """Hypothetical contributions (gene, treatment, position, base A C G T); only what is asked for is read.

        What each base would add to the prediction, in response units or log-odds; over the four bases they sum to
        0, where the promoter has N all are 0. gene, treatment: one name (its axis is dropped), several (in that
        order), or None for all; gene can also be a slice of sample numbers.

        Raises: BioattnError for a gene or treatment that is not there; FormatError when the file is damaged.
        """
        chosen = [self._genes(gene), self._treatments(treatment), slice(None), slice(None)]
        values: NDArray[np.float32] = self._contents.read(ATTRIBUTION, VALUES, chosen)
        return values

    def contributions(self, *, gene: Choice = None, treatment: Names = None) -> NDArray[np.float32]:
        """The value of the base that is there, (gene, treatment, position): positive where it raises the response.

        gene, treatment and what is raised: as in `values`.
        """
        values = self.values(gene=gene, treatment=treatment)
        codes = self.sequences(gene=gene)
        if values.ndim - codes.ndim == 2:  # treatments have an axis of their own
            codes = np.expand_dims(codes, -2)
        known = np.minimum(codes, 3).astype(np.int64)[..., None]
        picked = np.take_along_axis(values, np.broadcast_to(known, (*values.shape[:-1], 1)), axis=-1)[..., 0]
        return np.where(codes > 3, np.float32(0), picked)

    def sequences(self, *, gene: Choice = None) -> NDArray[np.uint8]:
        """Codes (gene, position), 0..3 = A C G T, 4 = N; `gene` as in `values`."""
        codes: NDArray[np.uint8] = self._contents.read(
            ATTRIBUTION, SEQUENCE, [self._genes(gene), slice(None)]
        )
        return codes

    def completeness_gap(self) -> pd.DataFrame | None:
        """Of integrated gradients, f(promoter) − f(baseline) − sum of all contributions, genes × treatments.

        In the units of the values; before these were centred. None for other methods.
        """
        if all(array.name != GAP for array in self._groups[ATTRIBUTION].arrays):
            return None
        values = self._contents.read(ATTRIBUTION, GAP, [slice(None)])
        return pd.DataFrame(values, index=self.samples.index, columns=self.treatments)

    def array(self, *, samples: Choice = None, treatments: Names = None) -> LabelledArray:
        """What each of the four bases would add: axes sample, treatment, position, base (`values` has the unit).

        samples: names, or a slice of their numbers. Raises: BioattnError for what is not there.
        """
        names = self._named(samples)
        values = self.values(gene=names, treatment=treatments)
        return self._labelled(values, names, treatments, {"base": BASES})

    def at_bases(self, *, samples: Choice = None, treatments: Names = None) -> LabelledArray:
        """What the base that is there adds: axes sample, treatment, position. Raises: as `array`."""
        names = self._named(samples)
        return self._labelled(self.contributions(gene=names, treatment=treatments), names, treatments, {})

    def _labelled(
        self, values: NDArray[Any], samples: Names, treatments: Names, more: Mapping[str, Sequence[str]]
    ) -> LabelledArray:
        coordinates: dict[str, Sequence[Any] | NDArray[Any]] = {
            schema.SAMPLE: self._contents.samples.ids if samples is None else samples,
            "treatment": self.treatments if treatments is None else treatments,
            "position": self.positions,
            **more,
        }
        kept = {dim: places for dim, places in coordinates.items() if not isinstance(places, str)}
        return LabelledArray(name="attribution", values=values, coordinates=kept, long_name="contribution")


open_attribution = Attribution.open
