import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from txcoord.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Table(_message.Message):
    __slots__ = ("id", "name", "uri", "metadata_id", "mode", "version", "marker", "one_txn_per_version", "freeze", "pending_changes", "stopped", "fence", "mode_reason", "trouble", "unseen")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    METADATA_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MARKER_FIELD_NUMBER: _ClassVar[int]
    ONE_TXN_PER_VERSION_FIELD_NUMBER: _ClassVar[int]
    FREEZE_FIELD_NUMBER: _ClassVar[int]
    PENDING_CHANGES_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    MODE_REASON_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    uri: str
    metadata_id: str
    mode: _common_pb2.TableMode
    version: int
    marker: int
    one_txn_per_version: bool
    freeze: _common_pb2.Freeze
    pending_changes: int
    stopped: str
    fence: Fence
    mode_reason: str
    trouble: str
    unseen: bool
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., metadata_id: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.TableMode, str]] = ..., version: _Optional[int] = ..., marker: _Optional[int] = ..., one_txn_per_version: bool = ..., freeze: _Optional[_Union[_common_pb2.Freeze, _Mapping]] = ..., pending_changes: _Optional[int] = ..., stopped: _Optional[str] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., mode_reason: _Optional[str] = ..., trouble: _Optional[str] = ..., unseen: bool = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("version", "since", "counts", "decided_from", "by_operator")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FROM_FIELD_NUMBER: _ClassVar[int]
    BY_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    version: int
    since: _timestamp_pb2.Timestamp
    counts: bool
    decided_from: _timestamp_pb2.Timestamp
    by_operator: bool
    def __init__(self, version: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., counts: bool = ..., decided_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., by_operator: bool = ...) -> None: ...

class RegisterTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "name", "uri", "mode", "take_over", "one_txn_per_version")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    ONE_TXN_PER_VERSION_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    name: str
    uri: str
    mode: _common_pb2.TableMode
    take_over: bool
    one_txn_per_version: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.TableMode, str]] = ..., take_over: bool = ..., one_txn_per_version: bool = ...) -> None: ...

class RegisterTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table", "warnings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: Table
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[Table, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "name", "uri", "schema_json", "partition_columns", "properties", "description", "mode", "one_txn_per_version")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ONE_TXN_PER_VERSION_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    name: str
    uri: str
    schema_json: str
    partition_columns: _containers.RepeatedScalarFieldContainer[str]
    properties: _containers.ScalarMap[str, str]
    description: str
    mode: _common_pb2.TableMode
    one_txn_per_version: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., schema_json: _Optional[str] = ..., partition_columns: _Optional[_Iterable[str]] = ..., properties: _Optional[_Mapping[str, str]] = ..., description: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.TableMode, str]] = ..., one_txn_per_version: bool = ...) -> None: ...

class CreateTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table", "warnings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: Table
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[Table, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "frozen_only", "page_size", "page_token")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    FROZEN_ONLY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    frozen_only: bool
    page_size: int
    page_token: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., frozen_only: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("latest_snapshot", "tables", "next_page_token")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    tables: _containers.RepeatedCompositeFieldContainer[Table]
    next_page_token: str
    def __init__(self, latest_snapshot: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[Table, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DescribeTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ...) -> None: ...

class DescribeTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table", "pending", "open_round", "state", "warnings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    OPEN_ROUND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: Table
    pending: _containers.RepeatedCompositeFieldContainer[PendingChange]
    open_round: Round
    state: TableState
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[Table, _Mapping]] = ..., pending: _Optional[_Iterable[_Union[PendingChange, _Mapping]]] = ..., open_round: _Optional[_Union[Round, _Mapping]] = ..., state: _Optional[_Union[TableState, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class PendingChange(_message.Message):
    __slots__ = ("change_number", "transaction_id", "given_up")
    CHANGE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    change_number: int
    transaction_id: str
    given_up: _common_pb2.Rule
    def __init__(self, change_number: _Optional[int] = ..., transaction_id: _Optional[str] = ..., given_up: _Optional[_Union[_common_pb2.Rule, str]] = ...) -> None: ...

class Round(_message.Message):
    __slots__ = ("id", "opened_at", "transactions", "tables")
    ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    id: str
    opened_at: _timestamp_pb2.Timestamp
    transactions: int
    tables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., transactions: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ...) -> None: ...

class TableState(_message.Message):
    __slots__ = ("version", "min_reader_version", "min_writer_version", "reader_features", "writer_features", "schema_json", "partition_columns", "properties", "log_retention", "deleted_file_retention", "files", "bytes")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MIN_READER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MIN_WRITER_VERSION_FIELD_NUMBER: _ClassVar[int]
    READER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    WRITER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    LOG_RETENTION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FILE_RETENTION_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    version: int
    min_reader_version: int
    min_writer_version: int
    reader_features: _containers.RepeatedScalarFieldContainer[str]
    writer_features: _containers.RepeatedScalarFieldContainer[str]
    schema_json: str
    partition_columns: _containers.RepeatedScalarFieldContainer[str]
    properties: _containers.ScalarMap[str, str]
    log_retention: _duration_pb2.Duration
    deleted_file_retention: _duration_pb2.Duration
    files: int
    bytes: int
    def __init__(self, version: _Optional[int] = ..., min_reader_version: _Optional[int] = ..., min_writer_version: _Optional[int] = ..., reader_features: _Optional[_Iterable[str]] = ..., writer_features: _Optional[_Iterable[str]] = ..., schema_json: _Optional[str] = ..., partition_columns: _Optional[_Iterable[str]] = ..., properties: _Optional[_Mapping[str, str]] = ..., log_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deleted_file_retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ReleaseTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "keep_fence")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FENCE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    keep_fence: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., keep_fence: bool = ...) -> None: ...

class ReleaseTableResponse(_message.Message):
    __slots__ = ("latest_snapshot",)
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    def __init__(self, latest_snapshot: _Optional[int] = ...) -> None: ...

class SetTableModeRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "mode")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    mode: _common_pb2.TableMode
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.TableMode, str]] = ...) -> None: ...

class SetTableModeResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: Table
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class FenceTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "no_older_writers")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    NO_OLDER_WRITERS_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    no_older_writers: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., no_older_writers: bool = ...) -> None: ...

class FenceTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: Table
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class UnfenceTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ...) -> None: ...

class UnfenceTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: Table
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...
