"""Datasets of HDF5 files, by h5py where that is installed: where their elements lie.

A dataset that is written gets all its room when it is made, in one piece: its elements are written
there as those of any file, in the order in which ranks bring them.
"""

from __future__ import annotations

import os
import shutil
from typing import Any


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise ImportError(
            "key= is for datasets of HDF5, and there is no h5py where the delegate runs: pip "
            "install h5py"
        ) from None
    return h5py


class Datasets:
    """Those that are being written to one file, beside its place."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.descriptor = descriptor
        self.kept = False  # whether one is complete
        self._part = f"{path}.part"
        self._open: set[str] = set()
        if not os.path.exists(path):
            _h5py().File(self._part, "w", locking=False).close()
            return
        if not _h5py().is_hdf5(path):
            raise ValueError(f"save: {path} is there, and is not a file of HDF5")
        with open(path, "rb") as there, os.fdopen(os.dup(descriptor), "wb") as part:
            shutil.copyfileobj(there, part, 4 << 20)

    @property
    def over(self) -> bool:
        """Whether none is under way."""
        return not self._open

    def add(self, key: str, shape: tuple[int, ...], dtype: Any) -> int:
        """Make a dataset, in place of another of that name; return where its elements go."""
        h5 = _h5py()
        layout, links = h5.h5p.create(h5.h5p.DATASET_CREATE), h5.h5p.create(h5.h5p.LINK_CREATE)
        layout.set_layout(h5.h5d.CONTIGUOUS)
        layout.set_alloc_time(h5.h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5.h5d.FILL_TIME_NEVER)
        links.set_create_intermediate_group(True)
        with h5.File(self._part, "r+", locking=False) as file:
            if key in file:
                del file[key]
            space = h5.h5s.create_simple(shape) if shape else h5.h5s.create(h5.h5s.SCALAR)
            kind = h5.h5t.py_create(dtype, logical=True)
            made = h5.h5d.create(file.id, key.encode(), kind, space, layout, links)
            at = made.get_offset()
            if made.dtype != dtype or (at is None and made.get_storage_size()):
                raise TypeError(f"save: HDF5 has no elements such as {dtype}")
        self._open.add(key)
        return int(at or 0)

    def end(self, key: str, *, keep: bool) -> None:
        """Note that a dataset is complete, or remove it."""
        if keep:
            self.kept = True
        elif key in self._open:
            with _h5py().File(self._part, "r+", locking=False) as file:
                del file[key]
        self._open.discard(key)


def find(path: str, key: str, dtype: Any) -> tuple[int, int, Any]:
    """Return where the elements of a dataset are, their bytes, and None.

    Of one that is in several pieces, or compressed: 0, their bytes, and the elements.
    """
    with _h5py().File(path, "r", locking=False) as file:
        try:
            there = file[key]
            found = there.dtype
        except (KeyError, AttributeError):
            raise KeyError(f"load: {path} has no dataset {key!r}") from None
        if dtype is not None and found != dtype:
            raise TypeError(
                f"load: {key!r} in {path} has elements of {found}, and the memory of {dtype}; give "
                "an array of that type"
            )
        if found.hasobject:
            raise TypeError(f"load: {key!r} in {path} has elements of no fixed length")
        nbytes = there.size * found.itemsize
        at = there.id.get_offset() if there.chunks is None and not there.external else None
        if at is not None or not nbytes:
            return int(at or 0), nbytes, None
        return 0, nbytes, there[...].reshape(-1).view("u1")
