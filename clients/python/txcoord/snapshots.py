"""Snapshots: which versions of which tables belong together."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Dict, Iterator, Mapping, Optional

from txcoord.arrow import path_of
from txcoord.v1 import snapshots_pb2


class Snapshot(Mapping[str, snapshots_pb2.SnapshotTable]):
    """Tables by name, each with the Delta version to read. Every transaction is in all of its
    tables, or in none.

    ``version`` counts from 1 (0: the catalog has no snapshot yet); ``timestamp`` is an aware
    ``datetime`` in UTC.
    """

    def __init__(self, snapshot: snapshots_pb2.Snapshot) -> None:
        self.message = snapshot
        self.version: int = snapshot.version
        self.timestamp: datetime = snapshot.timestamp.ToDatetime(timezone.utc)
        self._tables: Dict[str, snapshots_pb2.SnapshotTable] = {t.name: t for t in snapshot.tables}

    def __repr__(self) -> str:
        return f"<Snapshot {self.version}: {self.versions}>"

    def __getitem__(self, name: str) -> snapshots_pb2.SnapshotTable:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def versions(self) -> Dict[str, int]:
        """The Delta version by table."""
        return {name: t.version for name, t in self._tables.items()}

    def delta(self, name: str, storage_options: Optional[Mapping[str, str]] = None) -> Any:
        """The table as a ``deltalake.DeltaTable`` at the snapshot's version. Needs deltalake."""
        from deltalake import DeltaTable

        table = self._tables[name]
        at = path_of(table.uri) if table.uri.startswith("file://") else table.uri
        return DeltaTable(at, version=table.version, storage_options=dict(storage_options or {}) or None)
