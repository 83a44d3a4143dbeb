import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from txcoord.v1 import common_pb2 as _common_pb2
from txcoord.v1 import tables_pb2 as _tables_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStatusRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("latest_snapshot", "server_version", "catalog_id", "incarnation", "position", "last_entry_at", "checkpoint_position", "manifest_snapshot", "remembered_since", "tables", "open_transactions", "open_rounds", "frozen", "opened", "replicas", "troubles", "codec", "server_time", "ahead_of_store", "ring_slots", "backlog_bytes", "backlog_limit", "waiting", "committed", "aborted", "conflicts", "reservations", "held_back")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_AT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_POSITION_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    OPEN_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    OPEN_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    AHEAD_OF_STORE_FIELD_NUMBER: _ClassVar[int]
    RING_SLOTS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    server_version: str
    catalog_id: str
    incarnation: str
    position: int
    last_entry_at: _timestamp_pb2.Timestamp
    checkpoint_position: int
    manifest_snapshot: int
    remembered_since: _timestamp_pb2.Timestamp
    tables: int
    open_transactions: int
    open_rounds: _containers.RepeatedCompositeFieldContainer[_tables_pb2.Round]
    frozen: _containers.RepeatedCompositeFieldContainer[FrozenTable]
    opened: _containers.RepeatedCompositeFieldContainer[OpenedTable]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    troubles: _containers.RepeatedCompositeFieldContainer[Trouble]
    codec: int
    server_time: _timestamp_pb2.Timestamp
    ahead_of_store: _duration_pb2.Duration
    ring_slots: int
    backlog_bytes: int
    backlog_limit: int
    waiting: int
    committed: int
    aborted: int
    conflicts: int
    reservations: _containers.RepeatedCompositeFieldContainer[Reservation]
    held_back: int
    def __init__(self, latest_snapshot: _Optional[int] = ..., server_version: _Optional[str] = ..., catalog_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., position: _Optional[int] = ..., last_entry_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., checkpoint_position: _Optional[int] = ..., manifest_snapshot: _Optional[int] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tables: _Optional[int] = ..., open_transactions: _Optional[int] = ..., open_rounds: _Optional[_Iterable[_Union[_tables_pb2.Round, _Mapping]]] = ..., frozen: _Optional[_Iterable[_Union[FrozenTable, _Mapping]]] = ..., opened: _Optional[_Iterable[_Union[OpenedTable, _Mapping]]] = ..., replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., troubles: _Optional[_Iterable[_Union[Trouble, _Mapping]]] = ..., codec: _Optional[int] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ahead_of_store: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., ring_slots: _Optional[int] = ..., backlog_bytes: _Optional[int] = ..., backlog_limit: _Optional[int] = ..., waiting: _Optional[int] = ..., committed: _Optional[int] = ..., aborted: _Optional[int] = ..., conflicts: _Optional[int] = ..., reservations: _Optional[_Iterable[_Union[Reservation, _Mapping]]] = ..., held_back: _Optional[int] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("key", "attempt", "tables", "since", "until_position")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_POSITION_FIELD_NUMBER: _ClassVar[int]
    key: str
    attempt: int
    tables: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    until_position: int
    def __init__(self, key: _Optional[str] = ..., attempt: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until_position: _Optional[int] = ...) -> None: ...

class OpenedTable(_message.Message):
    __slots__ = ("table_id", "table", "reason")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    table: str
    reason: str
    def __init__(self, table_id: _Optional[str] = ..., table: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("id", "address", "build", "codec", "position", "snapshot", "started_at", "silent", "alive", "self", "clock_ahead")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    SELF_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    build: str
    codec: int
    position: int
    snapshot: int
    started_at: _timestamp_pb2.Timestamp
    silent: _duration_pb2.Duration
    alive: bool
    self: bool
    clock_ahead: _duration_pb2.Duration
    def __init__(self_, id: _Optional[str] = ..., address: _Optional[str] = ..., build: _Optional[str] = ..., codec: _Optional[int] = ..., position: _Optional[int] = ..., snapshot: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., silent: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., alive: bool = ..., self: bool = ..., clock_ahead: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Trouble(_message.Message):
    __slots__ = ("place", "text", "remedy", "since")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    place: str
    text: str
    remedy: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, place: _Optional[str] = ..., text: _Optional[str] = ..., remedy: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FrozenTable(_message.Message):
    __slots__ = ("table_id", "table", "freeze")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FREEZE_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    table: str
    freeze: _common_pb2.Freeze
    def __init__(self, table_id: _Optional[str] = ..., table: _Optional[str] = ..., freeze: _Optional[_Union[_common_pb2.Freeze, _Mapping]] = ...) -> None: ...
