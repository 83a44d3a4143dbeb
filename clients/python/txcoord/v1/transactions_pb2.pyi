import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from txcoord.v1 import common_pb2 as _common_pb2
from txcoord.v1 import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Wait(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_UNSPECIFIED: _ClassVar[Wait]
    WAIT_PUBLISHED: _ClassVar[Wait]
    WAIT_DECIDED: _ClassVar[Wait]

class DeliveryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_STATE_UNSPECIFIED: _ClassVar[DeliveryState]
    DELIVERY_STATE_PENDING: _ClassVar[DeliveryState]
    DELIVERY_STATE_PUBLISHED: _ClassVar[DeliveryState]
    DELIVERY_STATE_DIVERGED: _ClassVar[DeliveryState]
    DELIVERY_STATE_NOT_APPLIED: _ClassVar[DeliveryState]
WAIT_UNSPECIFIED: Wait
WAIT_PUBLISHED: Wait
WAIT_DECIDED: Wait
DELIVERY_STATE_UNSPECIFIED: DeliveryState
DELIVERY_STATE_PENDING: DeliveryState
DELIVERY_STATE_PUBLISHED: DeliveryState
DELIVERY_STATE_DIVERGED: DeliveryState
DELIVERY_STATE_NOT_APPLIED: DeliveryState

class BeginRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "key", "attempt", "ttl", "token")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    key: str
    attempt: int
    ttl: _duration_pb2.Duration
    token: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., key: _Optional[str] = ..., attempt: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class BeginResponse(_message.Message):
    __slots__ = ("latest_snapshot", "token", "transaction_id", "attempt", "catalog_id", "incarnation", "position", "deadline", "remembered_since", "known")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    token: str
    transaction_id: str
    attempt: int
    catalog_id: str
    incarnation: str
    position: int
    deadline: _timestamp_pb2.Timestamp
    remembered_since: _timestamp_pb2.Timestamp
    known: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, latest_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., transaction_id: _Optional[str] = ..., attempt: _Optional[int] = ..., catalog_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., position: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., known: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class StageRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "token", "table", "read", "actions", "create", "alter")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    ALTER_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    token: str
    table: str
    read: _common_pb2.ReadDeclaration
    actions: bytes
    create: NewTable
    alter: TableAlteration
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., table: _Optional[str] = ..., read: _Optional[_Union[_common_pb2.ReadDeclaration, _Mapping]] = ..., actions: _Optional[bytes] = ..., create: _Optional[_Union[NewTable, _Mapping]] = ..., alter: _Optional[_Union[TableAlteration, _Mapping]] = ...) -> None: ...

class NewTable(_message.Message):
    __slots__ = ("uri", "schema_json", "partition_columns", "properties", "description", "mode", "one_txn_per_version")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    URI_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ONE_TXN_PER_VERSION_FIELD_NUMBER: _ClassVar[int]
    uri: str
    schema_json: str
    partition_columns: _containers.RepeatedScalarFieldContainer[str]
    properties: _containers.ScalarMap[str, str]
    description: str
    mode: _common_pb2.TableMode
    one_txn_per_version: bool
    def __init__(self, uri: _Optional[str] = ..., schema_json: _Optional[str] = ..., partition_columns: _Optional[_Iterable[str]] = ..., properties: _Optional[_Mapping[str, str]] = ..., description: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.TableMode, str]] = ..., one_txn_per_version: bool = ...) -> None: ...

class TableAlteration(_message.Message):
    __slots__ = ("add_columns", "set_properties", "unset_properties", "widen_columns", "column_comments", "description")
    class SetPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class WidenColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ColumnCommentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADD_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    UNSET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    WIDEN_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COLUMN_COMMENTS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    add_columns: _containers.RepeatedCompositeFieldContainer[NewColumn]
    set_properties: _containers.ScalarMap[str, str]
    unset_properties: _containers.RepeatedScalarFieldContainer[str]
    widen_columns: _containers.ScalarMap[str, str]
    column_comments: _containers.ScalarMap[str, str]
    description: str
    def __init__(self, add_columns: _Optional[_Iterable[_Union[NewColumn, _Mapping]]] = ..., set_properties: _Optional[_Mapping[str, str]] = ..., unset_properties: _Optional[_Iterable[str]] = ..., widen_columns: _Optional[_Mapping[str, str]] = ..., column_comments: _Optional[_Mapping[str, str]] = ..., description: _Optional[str] = ...) -> None: ...

class NewColumn(_message.Message):
    __slots__ = ("name", "type", "comment")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    comment: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., comment: _Optional[str] = ...) -> None: ...

class StageResponse(_message.Message):
    __slots__ = ("latest_snapshot", "part")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    part: StagedPart
    def __init__(self, latest_snapshot: _Optional[int] = ..., part: _Optional[_Union[StagedPart, _Mapping]] = ...) -> None: ...

class StageStreamRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: StageHeader
    chunk: bytes
    def __init__(self, header: _Optional[_Union[StageHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class StageHeader(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "token", "table", "read", "create", "alter")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    ALTER_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    token: str
    table: str
    read: _common_pb2.ReadDeclaration
    create: NewTable
    alter: TableAlteration
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., table: _Optional[str] = ..., read: _Optional[_Union[_common_pb2.ReadDeclaration, _Mapping]] = ..., create: _Optional[_Union[NewTable, _Mapping]] = ..., alter: _Optional[_Union[TableAlteration, _Mapping]] = ...) -> None: ...

class StageStreamResponse(_message.Message):
    __slots__ = ("latest_snapshot", "part")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    part: StagedPart
    def __init__(self, latest_snapshot: _Optional[int] = ..., part: _Optional[_Union[StagedPart, _Mapping]] = ...) -> None: ...

class StagedPart(_message.Message):
    __slots__ = ("digest", "table_id", "metadata_id", "bytes", "lines", "hint")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    digest: str
    table_id: str
    metadata_id: str
    bytes: int
    lines: int
    hint: _errors_pb2.ConflictDetail
    def __init__(self, digest: _Optional[str] = ..., table_id: _Optional[str] = ..., metadata_id: _Optional[str] = ..., bytes: _Optional[int] = ..., lines: _Optional[int] = ..., hint: _Optional[_Union[_errors_pb2.ConflictDetail, _Mapping]] = ...) -> None: ...

class TableParts(_message.Message):
    __slots__ = ("table", "digests")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    table: str
    digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table: _Optional[str] = ..., digests: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadParticipant(_message.Message):
    __slots__ = ("table", "read")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    table: str
    read: _common_pb2.ReadDeclaration
    def __init__(self, table: _Optional[str] = ..., read: _Optional[_Union[_common_pb2.ReadDeclaration, _Mapping]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "token", "tables", "reads", "wait", "wait_limit", "verify_files", "releases")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FILES_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    token: str
    tables: _containers.RepeatedCompositeFieldContainer[TableParts]
    reads: _containers.RepeatedCompositeFieldContainer[ReadParticipant]
    wait: Wait
    wait_limit: _duration_pb2.Duration
    verify_files: bool
    releases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., tables: _Optional[_Iterable[_Union[TableParts, _Mapping]]] = ..., reads: _Optional[_Iterable[_Union[ReadParticipant, _Mapping]]] = ..., wait: _Optional[_Union[Wait, str]] = ..., wait_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., verify_files: bool = ..., releases: _Optional[_Iterable[str]] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("latest_snapshot", "outcome")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    outcome: Outcome
    def __init__(self, latest_snapshot: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "token", "transaction_id", "reason")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    token: str
    transaction_id: str
    reason: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., transaction_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AbortResponse(_message.Message):
    __slots__ = ("latest_snapshot", "outcome")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    outcome: Outcome
    def __init__(self, latest_snapshot: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class GetOutcomeRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "token", "key", "transaction_id", "attempt", "begun_after", "resolve")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_AFTER_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    token: str
    key: str
    transaction_id: str
    attempt: int
    begun_after: _timestamp_pb2.Timestamp
    resolve: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., key: _Optional[str] = ..., transaction_id: _Optional[str] = ..., attempt: _Optional[int] = ..., begun_after: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., resolve: bool = ...) -> None: ...

class GetOutcomeResponse(_message.Message):
    __slots__ = ("latest_snapshot", "outcome", "remembered_since")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    outcome: Outcome
    remembered_since: _timestamp_pb2.Timestamp
    def __init__(self, latest_snapshot: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("transaction_id", "key", "attempt", "open", "aborted", "committed")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    key: str
    attempt: int
    open: OpenOutcome
    aborted: AbortedOutcome
    committed: CommittedOutcome
    def __init__(self, transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., attempt: _Optional[int] = ..., open: _Optional[_Union[OpenOutcome, _Mapping]] = ..., aborted: _Optional[_Union[AbortedOutcome, _Mapping]] = ..., committed: _Optional[_Union[CommittedOutcome, _Mapping]] = ...) -> None: ...

class OpenOutcome(_message.Message):
    __slots__ = ("deadline",)
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AbortedOutcome(_message.Message):
    __slots__ = ("conflict", "decided_at")
    CONFLICT_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    conflict: _errors_pb2.ConflictDetail
    decided_at: _timestamp_pb2.Timestamp
    def __init__(self, conflict: _Optional[_Union[_errors_pb2.ConflictDetail, _Mapping]] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CommittedOutcome(_message.Message):
    __slots__ = ("tables", "snapshot_version", "decided_at", "position", "pending_reason", "warnings")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PENDING_REASON_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[TableDelivery]
    snapshot_version: int
    decided_at: _timestamp_pb2.Timestamp
    position: int
    pending_reason: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tables: _Optional[_Iterable[_Union[TableDelivery, _Mapping]]] = ..., snapshot_version: _Optional[int] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., position: _Optional[int] = ..., pending_reason: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class TableDelivery(_message.Message):
    __slots__ = ("table_id", "table", "state", "version", "place", "conflict")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    table: str
    state: DeliveryState
    version: int
    place: int
    conflict: _errors_pb2.ConflictDetail
    def __init__(self, table_id: _Optional[str] = ..., table: _Optional[str] = ..., state: _Optional[_Union[DeliveryState, str]] = ..., version: _Optional[int] = ..., place: _Optional[int] = ..., conflict: _Optional[_Union[_errors_pb2.ConflictDetail, _Mapping]] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "include_decided", "page_size", "page_token")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DECIDED_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    include_decided: bool
    page_size: int
    page_token: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., include_decided: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("latest_snapshot", "open", "decided", "next_page_token")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    open: _containers.RepeatedCompositeFieldContainer[OpenTransaction]
    decided: _containers.RepeatedCompositeFieldContainer[Outcome]
    next_page_token: str
    def __init__(self, latest_snapshot: _Optional[int] = ..., open: _Optional[_Iterable[_Union[OpenTransaction, _Mapping]]] = ..., decided: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class OpenTransaction(_message.Message):
    __slots__ = ("transaction_id", "key", "attempt", "client", "begun_at", "deadline", "tables")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    key: str
    attempt: int
    client: str
    begun_at: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    tables: _containers.RepeatedCompositeFieldContainer[StagedTable]
    def __init__(self, transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., attempt: _Optional[int] = ..., client: _Optional[str] = ..., begun_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[StagedTable, _Mapping]]] = ...) -> None: ...

class StagedTable(_message.Message):
    __slots__ = ("table_id", "table", "bytes", "parts")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    table: str
    bytes: int
    parts: int
    def __init__(self, table_id: _Optional[str] = ..., table: _Optional[str] = ..., bytes: _Optional[int] = ..., parts: _Optional[int] = ...) -> None: ...

class OnceTable(_message.Message):
    __slots__ = ("table", "read", "actions", "create", "alter")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    ALTER_FIELD_NUMBER: _ClassVar[int]
    table: str
    read: _common_pb2.ReadDeclaration
    actions: bytes
    create: NewTable
    alter: TableAlteration
    def __init__(self, table: _Optional[str] = ..., read: _Optional[_Union[_common_pb2.ReadDeclaration, _Mapping]] = ..., actions: _Optional[bytes] = ..., create: _Optional[_Union[NewTable, _Mapping]] = ..., alter: _Optional[_Union[TableAlteration, _Mapping]] = ...) -> None: ...

class CommitOnceRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "key", "attempt", "tables", "reads", "wait", "wait_limit", "verify_files", "releases")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FILES_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    key: str
    attempt: int
    tables: _containers.RepeatedCompositeFieldContainer[OnceTable]
    reads: _containers.RepeatedCompositeFieldContainer[ReadParticipant]
    wait: Wait
    wait_limit: _duration_pb2.Duration
    verify_files: bool
    releases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., key: _Optional[str] = ..., attempt: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[OnceTable, _Mapping]]] = ..., reads: _Optional[_Iterable[_Union[ReadParticipant, _Mapping]]] = ..., wait: _Optional[_Union[Wait, str]] = ..., wait_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., verify_files: bool = ..., releases: _Optional[_Iterable[str]] = ...) -> None: ...

class CommitOnceResponse(_message.Message):
    __slots__ = ("latest_snapshot", "outcome", "token")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    outcome: Outcome
    token: str
    def __init__(self, latest_snapshot: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...
