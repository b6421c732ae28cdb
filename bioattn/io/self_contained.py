"""HDF5 of unknown origin must hold its own data: no pointers to other files, no plug-ins, no impossible sizes."""

from pathlib import Path
from typing import Any

import h5py

from bioattn.errors import FormatError
from bioattn.text import human_bytes

KNOWN_FILTERS = {
    h5py.h5z.FILTER_FLETCHER32: "fletcher32",
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
    h5py.h5z.FILTER_DEFLATE: "gzip",
}
"""Filters every HDF5 build has; any other would make the library look for a plug-in to load."""
MOST_PACKED = 64
"""How many times its stored bytes an array may claim, beyond `ALWAYS_ALLOWED`."""
ALWAYS_ALLOWED = 1 << 30


def require_self_contained(path: Path, file: h5py.File) -> None:
    """Refuse soft and external links, virtual and external storage, unknown filters and impossible sizes.

    The first three would let a file make its reader open other files or load plug-ins; an array that claims many
    times what is stored would take all memory.

    Raises: FormatError naming the first such object.
    """
    pending: list[h5py.Group] = [file]
    seen: set[Any] = set()
    while pending:
        group = pending.pop()
        for name in group:
            where = f"{group.name.rstrip('/')}/{name}"
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise FormatError(
                    f"{path}: {where} is a link to elsewhere; only data in the file itself is read"
                )
            item = group[name]
            if isinstance(item, h5py.Group):
                # Hard links can make cycles; the object's address tells groups apart.
                address = h5py.h5o.get_info(item.id).addr
                if address not in seen:
                    seen.add(address)
                    pending.append(item)
            elif isinstance(item, h5py.Dataset):
                _require_plain_storage(path, where, item)
            else:
                raise FormatError(f"{path}: {where} is neither a group nor a dataset")


def _require_plain_storage(path: Path, where: str, dataset: h5py.Dataset) -> None:
    if dataset.is_virtual or dataset.external:
        raise FormatError(
            f"{path}: {where} keeps its data in another file; only data in the file itself is read"
        )
    filters = dataset.id.get_create_plist()
    for index in range(filters.get_nfilters()):
        code = filters.get_filter(index)[0]
        if code not in KNOWN_FILTERS:
            known = ", ".join(KNOWN_FILTERS.values())
            raise FormatError(f"{path}: {where} uses HDF5 filter {code}; only {known} are read")
    claimed = int(dataset.size or 0) * dataset.dtype.itemsize
    stored = dataset.id.get_storage_size()
    if claimed > MOST_PACKED * stored + ALWAYS_ALLOWED:
        raise FormatError(
            f"{path}: {where} claims an impossible shape {dataset.shape} ({human_bytes(claimed)}, of which "
            f"{human_bytes(stored)} are stored); make the file again"
        )
