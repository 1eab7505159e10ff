"""Keeps what a frozen backbone has read, so that in later epochs only what stands above it costs time."""

import os
import sqlite3
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc

Rows = NDArray[numpy.float32]


class CacheSettings(NamedTuple):
    """How much is kept, and where.

    megabytes (int): at least 1; beyond it what was used least recently goes.
    folder (str | None): of the file that holds it, which is removed at the end of the process; None for memory.
    """

    megabytes: int = 1024
    folder: str | None = None


class Store(Protocol):
    """Keeps arrays by key."""

    def get(self, key: bytes) -> Rows | None:
        """What was put there, if it is still kept."""

    def put(self, key: bytes, rows: Rows) -> None:
        """Keep an array, which may push out others; not one that is larger than all that may be kept."""


class MemoryStore:
    """In memory. limit (int): bytes."""

    def __init__(self, limit: int):
        self.limit = limit
        self._rows: OrderedDict[bytes, Rows] = OrderedDict()
        self._size = 0

    def get(self, key: bytes) -> Rows | None:
        """See `Store`."""
        if key in self._rows:
            self._rows.move_to_end(key)
        return self._rows.get(key)

    def put(self, key: bytes, rows: Rows) -> None:
        """See `Store`."""
        if rows.nbytes > self.limit:
            return
        self._rows[key] = rows
        self._size += rows.nbytes
        while self._size > self.limit:
            _, oldest = self._rows.popitem(last=False)
            self._size -= oldest.nbytes


class FileStore:
    """In a file. limit (int): bytes. folder (Path): gets the file."""

    def __init__(self, limit: int, folder: Path):
        self.limit = limit
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".vectors")
        os.close(handle)
        self._db = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
        # Nothing here is worth waiting for the disk: after a crash the file is of no use.
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE rows (key BLOB PRIMARY KEY, width INTEGER, size INTEGER, used INTEGER, data BLOB)")
        self._db.execute("CREATE INDEX by_use ON rows (used)")
        self._size = self._clock = 0
        try:
            # The file lives on while it is open, and goes with the process, also when that is killed.
            os.unlink(name)
        except PermissionError:  # Windows
            weakref.finalize(self, _remove, self._db, name)

    def get(self, key: bytes) -> Rows | None:
        """See `Store`."""
        found = self._db.execute("SELECT width, data FROM rows WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        self._clock += 1
        self._db.execute("UPDATE rows SET used = ? WHERE key = ?", (self._clock, key))
        width, data = found
        return numpy.frombuffer(data, dtype="float32").reshape(-1, width)

    def put(self, key: bytes, rows: Rows) -> None:
        """See `Store`."""
        if rows.nbytes > self.limit:
            return
        self._clock += 1
        values = (key, rows.shape[1], rows.nbytes, self._clock, rows.tobytes())
        self._db.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", values)
        self._size += rows.nbytes
        while self._size > self.limit:
            oldest, size = self._db.execute("SELECT key, size FROM rows ORDER BY used LIMIT 1").fetchone()
            self._db.execute("DELETE FROM rows WHERE key = ?", (oldest,))
            self._size -= size


def _remove(db: sqlite3.Connection, name: str) -> None:
    db.close()
    os.unlink(name)


class VectorCache:
    """Rows of documents by what they consist of.

    settings (CacheSettings): see there.
    """

    def __init__(self, settings: CacheSettings):
        self.settings = settings
        self._of: Hashable = None
        self._store = self._make_store()

    def read(self, docs: Sequence[Doc], version: Hashable, compute: Callable[[list[Doc]], list[Rows]]) -> list[Rows]:
        """The rows of each document, computed for those that are not kept.

        docs (Sequence[Doc]): any.
        version (Hashable): of the weights and settings that rows depend on; when it changes, all are forgotten.
        compute (Callable): gives the rows of each of several documents.
        RETURNS (list[Rows]): (rows, width) float32 each, in the order of the documents.
        """
        if version != self._of:
            self._of, self._store = version, self._make_store()
        keys = [doc.to_array(["ORTH", "SPACY"]).tobytes() for doc in docs]
        found = {key: rows for key in set(keys) if (rows := self._store.get(key)) is not None}
        missing = {key: doc for key, doc in zip(keys, docs, strict=True) if key not in found}
        if missing:
            computed = compute(list(missing.values()))
            for key, rows in zip(missing, computed, strict=True):
                # A copy, for a part of an array keeps all of it.
                found[key] = numpy.array(rows)
                self._store.put(key, found[key])
        return [found[key] for key in keys]

    def _make_store(self) -> Store:
        limit = self.settings.megabytes * 2**20
        return MemoryStore(limit) if self.settings.folder is None else FileStore(limit, Path(self.settings.folder))
