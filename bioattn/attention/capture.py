"""Listening to attention: `with capture(sites, receiver): model(...)` hands the weights of those sites to
`receiver`.

`with substitute(sites, other): model(...)` makes them use other weights than their own, to see what hangs on them.

The operator asks `listener_for(site)` at every call; without a listener it takes the fused path and no weight
tensor exists. The receiver is a protocol, so this room knows nothing of files.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from bioattn.attention.kernels import Used
from bioattn.attention.site import AttentionSite, Contribution, MapTiles, Tile


class AttentionReceiver(Protocol):
    """Takes the weights of one site for one batch, or tile after tile of them."""

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """`weights`: float32, detached, axes as `site.dims`; `value_weighted`: the
        same shape, or None.

        tile: which slice of one of its axes the weights are; None = all of it. Tiles come in order. Whoever keeps
        what it gets copies it: the memory may be used again for the next tile, that of `MapTiles` for the next but
        one.

        Of a site that contributes, `value_weighted` is what each key contributes, with its sign. Elsewhere
        value-weighted attention is the weight times the Euclidean norm of the value vector it multiplies
        (Kobayashi et al. 2020, Attention is not only a weight).
        """


class ReducingReceiver(AttentionReceiver, Protocol):
    """May want one map of all sequences in place of theirs."""

    def over_rows(self, site: AttentionSite) -> str:
        """`sum` or `max` where it wants no more than that of the weights over the outer axis, else ``."""

    def receive_reduced(self, site: AttentionSite, weights: Tensor, tile: Tile | None, number: int) -> None:
        """`weights`: float32, axes as `site.dims` but the first, of which they are `number` slices: `tile`."""


Substitution: TypeAlias = Callable[[AttentionSite, Tensor, Tile | None], Tensor]
"""Says which weights (..., Q, K) a site uses instead of its own, which are as the layer would use them, with
`site.null_key` the null key's last; not to be changed in place."""
ValueReceiver: TypeAlias = Callable[[AttentionSite, Tensor], None]
"""Takes the values (..., K, V) of one site for one batch as they are weighted, detached, without the null key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One `capture`, `capture_values` or `substitute`: which sites, who gets them, and whether value norms are
    wanted too."""

    patterns: tuple[str, ...]
    receiver: Any = None
    """An `AttentionReceiver`, or `ReducingReceiver`."""
    value_weighted: bool = False
    substitution: Substitution | None = None
    values: ValueReceiver | None = None
    tiles: MapTiles | None = None

    def over_rows(self, site: AttentionSite) -> str:
        """`sum` or `max` where its receiver wants no more of the outer axis and a kernel makes that, else ``."""
        plain = Used.attention and not (self.value_weighted or self.substitution or self.values)
        return str(self.receiver.over_rows(site)) if plain and hasattr(self.receiver, "over_rows") else ""


_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("attention_listeners", default=())


def capture(
    sites: Sequence[str],
    receiver: AttentionReceiver,
    *,
    value_weighted: bool = False,
    tiles: MapTiles | None = None,
) -> AbstractContextManager[None]:
    """Send the weights of every site whose name matches one of the shell patterns `sites` to `receiver`.

    Outputs stay those of the fused path to 1e-5. Captures nest; the innermost that matches a site gets it.
    tiles: sites with the axes sample, head, query and key hand over the maps of a single sample in tiles, so that
    no map need fit into memory.
    """
    return _listening(
        Listener(patterns=tuple(sites), receiver=receiver, value_weighted=value_weighted, tiles=tiles)
    )


def capture_values(sites: Sequence[str], receiver: ValueReceiver) -> AbstractContextManager[None]:
    """Send the values of every site whose name matches one of the shell patterns `sites` to `receiver`."""
    return _listening(Listener(patterns=tuple(sites), values=receiver))


def substitute(
    sites: Sequence[str], substitution: Substitution, receiver: AttentionReceiver | None = None
) -> AbstractContextManager[None]:
    """Let every site whose name matches one of the shell patterns `sites` attend with the weights that
    `substitution` gives, and hand those to `receiver`, if there is one. Nests as `capture` does.
    """
    return _listening(Listener(patterns=tuple(sites), receiver=receiver, substitution=substitution))


_number = 0
"""Listeners of all threads: a compiled graph can read it, and not a context variable."""


def somebody_listens() -> bool:
    """Whether there is any listener."""
    return _number > 0


@contextmanager
def _listening(listener: Listener) -> Iterator[None]:
    global _number
    token = _LISTENERS.set((listener, *_LISTENERS.get()))
    _number += 1
    try:
        yield
    finally:
        _number -= 1
        _LISTENERS.reset(token)


@contextmanager
def no_capture() -> Iterator[None]:
    """Let nobody listen: what is computed again for a gradient was heard the first time."""
    token = _LISTENERS.set(())
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def hand_over(
    site: AttentionSite,
    weights: Tensor,
    value: Tensor | None = None,
    tile: Tile | None = None,
    reader: Tensor | None = None,
) -> None:
    """Give weights that a layer computed itself to whoever listens to `site`.

    weights: (..., Q, K), or (..., K) where the site has no query axis; value: (..., K, V), broadcastable to the
    weights' leading axes, or None when nothing single is weighted; reader: as `attend` has it. With
    `site.null_key` the last key is kept back.
    Weights of half precision are scaled so that a row sums to 1.
    """
    listener = listener_for(site)
    if listener is None:
        return
    positions = slice(0, -1) if site.null_key else slice(None)
    if listener.values is not None and value is not None:
        listener.values(site, value.detach()[..., positions, :])
    if listener.receiver is None:
        return
    whole = weights.detach().float()
    if weights.dtype != whole.dtype:
        # Rounded one by one to half precision, the weights of a row miss a sum of 1 by up to some thousandths.
        whole = whole / whole.sum(-1, keepdim=True)
    kept = whole[..., positions]
    weighted = None
    product = site.contributes is Contribution.PRODUCT
    if (listener.value_weighted or product) and value is not None:
        factors = value.detach()[..., positions, :].float()
        if product and reader is not None:
            weighted = kept * (reader.detach().float() @ factors.transpose(-2, -1))
        else:
            factor = factors[..., 0] if product else factors.norm(dim=-1)
            weighted = kept * (factor if site.dims[-2] == "head" else factor.unsqueeze(-2))
    listener.receiver.receive(site, kept, weighted, tile)


def substituted(site: AttentionSite | None, weights: Tensor, tile: Tile | None = None) -> Tensor | None:
    """The weights (..., Q, K) that whoever listens to `site` wants used instead of `weights`; None without any."""
    listener = listener_for(site)
    if site is None or listener is None or listener.substitution is None:
        return None
    return listener.substitution(site, weights, tile)


def makes_weights(site: AttentionSite | None) -> bool:
    """Whether the weights of all sequences of `site` are written down for somebody."""
    listener = listener_for(site)
    return listener is not None and site is not None and not listener.over_rows(site)


def listener_for(site: AttentionSite | None) -> Listener | None:
    """The innermost listener to `site`, if any; in a compiled graph nobody listens."""
    if site is None or torch.compiler.is_compiling():
        return None
    for listener in _LISTENERS.get():
        if any(fnmatchcase(site.name, pattern) for pattern in listener.patterns):
            return listener
    return None


def sites_of(module: nn.Module) -> dict[str, AttentionSite]:
    """The attention sites of a module and its parts, by name: attributes, alone or in lists, tuples and dicts."""
    found: dict[str, AttentionSite] = {}
    for part in module.modules():
        for value in vars(part).values():
            several = value.values() if isinstance(value, dict) else value
            for site in several if isinstance(value, list | tuple | dict) else [value]:
                if isinstance(site, AttentionSite):
                    found[site.name] = site
    return found
