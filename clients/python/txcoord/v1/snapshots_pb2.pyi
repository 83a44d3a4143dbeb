import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Snapshot(_message.Message):
    __slots__ = ("version", "timestamp", "tables", "tags", "added")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    version: int
    timestamp: _timestamp_pb2.Timestamp
    tables: _containers.RepeatedCompositeFieldContainer[SnapshotTable]
    tags: _containers.RepeatedScalarFieldContainer[str]
    added: int
    def __init__(self, version: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[SnapshotTable, _Mapping]]] = ..., tags: _Optional[_Iterable[str]] = ..., added: _Optional[int] = ...) -> None: ...

class SnapshotTable(_message.Message):
    __slots__ = ("id", "name", "uri", "version", "frozen")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    uri: str
    version: int
    frozen: bool
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., version: _Optional[int] = ..., frozen: bool = ...) -> None: ...

class SnapshotChange(_message.Message):
    __slots__ = ("version", "timestamp", "tables", "transactions", "kind")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    version: int
    timestamp: _timestamp_pb2.Timestamp
    tables: _containers.RepeatedCompositeFieldContainer[TableChange]
    transactions: _containers.RepeatedCompositeFieldContainer[SnapshotTransaction]
    kind: str
    def __init__(self, version: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[TableChange, _Mapping]]] = ..., transactions: _Optional[_Iterable[_Union[SnapshotTransaction, _Mapping]]] = ..., kind: _Optional[str] = ...) -> None: ...

class TableChange(_message.Message):
    __slots__ = ("id", "name", "uri", "from_version", "to_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    FROM_VERSION_FIELD_NUMBER: _ClassVar[int]
    TO_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    uri: str
    from_version: int
    to_version: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., from_version: _Optional[int] = ..., to_version: _Optional[int] = ...) -> None: ...

class SnapshotTransaction(_message.Message):
    __slots__ = ("transaction_id", "key", "snapshot_version", "table_ids")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    key: str
    snapshot_version: int
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., snapshot_version: _Optional[int] = ..., table_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "version", "timestamp", "tag", "tables")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    version: int
    timestamp: _timestamp_pb2.Timestamp
    tag: str
    tables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., version: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tag: _Optional[str] = ..., tables: _Optional[_Iterable[str]] = ...) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("latest_snapshot", "snapshot")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    snapshot: Snapshot
    def __init__(self, latest_snapshot: _Optional[int] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "page_size", "page_token")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    page_size: int
    page_token: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("latest_snapshot", "snapshots", "next_page_token")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    snapshots: _containers.RepeatedCompositeFieldContainer[SnapshotChange]
    next_page_token: str
    def __init__(self, latest_snapshot: _Optional[int] = ..., snapshots: _Optional[_Iterable[_Union[SnapshotChange, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchSnapshotsRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "after")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    after: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class WatchSnapshotsResponse(_message.Message):
    __slots__ = ("latest_snapshot", "snapshot")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    snapshot: SnapshotChange
    def __init__(self, latest_snapshot: _Optional[int] = ..., snapshot: _Optional[_Union[SnapshotChange, _Mapping]] = ...) -> None: ...

class DiffSnapshotsRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "to")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    to: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., to: _Optional[int] = ..., **kwargs) -> None: ...

class DiffSnapshotsResponse(_message.Message):
    __slots__ = ("latest_snapshot", "to", "tables", "transactions")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    to: int
    tables: _containers.RepeatedCompositeFieldContainer[TableChange]
    transactions: _containers.RepeatedCompositeFieldContainer[SnapshotTransaction]
    def __init__(self, latest_snapshot: _Optional[int] = ..., to: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableChange, _Mapping]]] = ..., transactions: _Optional[_Iterable[_Union[SnapshotTransaction, _Mapping]]] = ..., **kwargs) -> None: ...

class TagSnapshotRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "tag", "snapshot_version")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    tag: str
    snapshot_version: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., tag: _Optional[str] = ..., snapshot_version: _Optional[int] = ...) -> None: ...

class TagSnapshotResponse(_message.Message):
    __slots__ = ("latest_snapshot", "warnings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTagsRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ...) -> None: ...

class ListTagsResponse(_message.Message):
    __slots__ = ("latest_snapshot", "tags")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    tags: _containers.RepeatedCompositeFieldContainer[Tag]
    def __init__(self, latest_snapshot: _Optional[int] = ..., tags: _Optional[_Iterable[_Union[Tag, _Mapping]]] = ...) -> None: ...

class Tag(_message.Message):
    __slots__ = ("name", "snapshot_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    snapshot_version: int
    def __init__(self, name: _Optional[str] = ..., snapshot_version: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("id", "snapshot_version", "note", "since", "until")
    ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    id: str
    snapshot_version: int
    note: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., snapshot_version: _Optional[int] = ..., note: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LeaseSnapshotRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "snapshot_version", "ttl", "lease_id", "note")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    snapshot_version: int
    ttl: _duration_pb2.Duration
    lease_id: str
    note: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., snapshot_version: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lease_id: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class LeaseSnapshotResponse(_message.Message):
    __slots__ = ("latest_snapshot", "lease", "warnings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    lease: Lease
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "lease_id", "ttl")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    lease_id: str
    ttl: _duration_pb2.Duration
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., lease_id: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ("latest_snapshot", "lease", "warnings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    lease: Lease
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListLeasesRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ...) -> None: ...

class ListLeasesResponse(_message.Message):
    __slots__ = ("latest_snapshot", "leases")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    def __init__(self, latest_snapshot: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ...) -> None: ...

class DeleteLeaseRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "lease_id")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    lease_id: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., lease_id: _Optional[str] = ...) -> None: ...

class DeleteLeaseResponse(_message.Message):
    __slots__ = ("latest_snapshot",)
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    def __init__(self, latest_snapshot: _Optional[int] = ...) -> None: ...
