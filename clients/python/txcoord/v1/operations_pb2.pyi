import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from txcoord.v1 import common_pb2 as _common_pb2
from txcoord.v1 import tables_pb2 as _tables_pb2
from txcoord.v1 import transactions_pb2 as _transactions_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TransactionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSACTION_STATE_UNSPECIFIED: _ClassVar[TransactionState]
    TRANSACTION_STATE_UNKNOWN: _ClassVar[TransactionState]
    TRANSACTION_STATE_FORGOTTEN: _ClassVar[TransactionState]
    TRANSACTION_STATE_OPEN: _ClassVar[TransactionState]
    TRANSACTION_STATE_OVERDUE: _ClassVar[TransactionState]
    TRANSACTION_STATE_ABORTED: _ClassVar[TransactionState]
    TRANSACTION_STATE_WAITING: _ClassVar[TransactionState]
    TRANSACTION_STATE_PUBLISHED: _ClassVar[TransactionState]
    TRANSACTION_STATE_GIVEN_UP: _ClassVar[TransactionState]

class FindingCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINDING_CODE_UNSPECIFIED: _ClassVar[FindingCode]
    FINDING_CODE_FROZEN: _ClassVar[FindingCode]
    FINDING_CODE_CLOSED: _ClassVar[FindingCode]
    FINDING_CODE_CHANGE_GIVEN_UP: _ClassVar[FindingCode]
    FINDING_CODE_STOPPED: _ClassVar[FindingCode]
    FINDING_CODE_OWNED_ELSEWHERE: _ClassVar[FindingCode]
    FINDING_CODE_LOCATION_REFUSED: _ClassVar[FindingCode]
    FINDING_CODE_LOG_UNREADABLE: _ClassVar[FindingCode]
    FINDING_CODE_FEATURE_UNSUPPORTED: _ClassVar[FindingCode]
    FINDING_CODE_TABLE_PROPERTY: _ClassVar[FindingCode]
    FINDING_CODE_ROUND_OPEN: _ClassVar[FindingCode]
    FINDING_CODE_CHANGES_PENDING: _ClassVar[FindingCode]
    FINDING_CODE_CATALOG_STOPPED: _ClassVar[FindingCode]
    FINDING_CODE_BACKLOG: _ClassVar[FindingCode]
    FINDING_CODE_UNEXPECTED_WRITER: _ClassVar[FindingCode]
    FINDING_CODE_FOREIGN_COMMITS: _ClassVar[FindingCode]
    FINDING_CODE_RETENTION: _ClassVar[FindingCode]
    FINDING_CODE_PROPERTY_IGNORED: _ClassVar[FindingCode]
    FINDING_CODE_STORE_TROUBLE: _ClassVar[FindingCode]
    FINDING_CODE_PART_LOST: _ClassVar[FindingCode]
    FINDING_CODE_RESERVED: _ClassVar[FindingCode]
    FINDING_CODE_LOG_ALTERED: _ClassVar[FindingCode]

class GarbageKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GARBAGE_KIND_UNSPECIFIED: _ClassVar[GarbageKind]
    GARBAGE_KIND_PART: _ClassVar[GarbageKind]
    GARBAGE_KIND_OPEN_RECORD: _ClassVar[GarbageKind]
    GARBAGE_KIND_FACTS: _ClassVar[GarbageKind]
    GARBAGE_KIND_CHECKPOINT: _ClassVar[GarbageKind]
    GARBAGE_KIND_DRAFT: _ClassVar[GarbageKind]
    GARBAGE_KIND_FORMER_JOURNAL: _ClassVar[GarbageKind]
    GARBAGE_KIND_QUARANTINED: _ClassVar[GarbageKind]
    GARBAGE_KIND_EXTRACT: _ClassVar[GarbageKind]
TRANSACTION_STATE_UNSPECIFIED: TransactionState
TRANSACTION_STATE_UNKNOWN: TransactionState
TRANSACTION_STATE_FORGOTTEN: TransactionState
TRANSACTION_STATE_OPEN: TransactionState
TRANSACTION_STATE_OVERDUE: TransactionState
TRANSACTION_STATE_ABORTED: TransactionState
TRANSACTION_STATE_WAITING: TransactionState
TRANSACTION_STATE_PUBLISHED: TransactionState
TRANSACTION_STATE_GIVEN_UP: TransactionState
FINDING_CODE_UNSPECIFIED: FindingCode
FINDING_CODE_FROZEN: FindingCode
FINDING_CODE_CLOSED: FindingCode
FINDING_CODE_CHANGE_GIVEN_UP: FindingCode
FINDING_CODE_STOPPED: FindingCode
FINDING_CODE_OWNED_ELSEWHERE: FindingCode
FINDING_CODE_LOCATION_REFUSED: FindingCode
FINDING_CODE_LOG_UNREADABLE: FindingCode
FINDING_CODE_FEATURE_UNSUPPORTED: FindingCode
FINDING_CODE_TABLE_PROPERTY: FindingCode
FINDING_CODE_ROUND_OPEN: FindingCode
FINDING_CODE_CHANGES_PENDING: FindingCode
FINDING_CODE_CATALOG_STOPPED: FindingCode
FINDING_CODE_BACKLOG: FindingCode
FINDING_CODE_UNEXPECTED_WRITER: FindingCode
FINDING_CODE_FOREIGN_COMMITS: FindingCode
FINDING_CODE_RETENTION: FindingCode
FINDING_CODE_PROPERTY_IGNORED: FindingCode
FINDING_CODE_STORE_TROUBLE: FindingCode
FINDING_CODE_PART_LOST: FindingCode
FINDING_CODE_RESERVED: FindingCode
FINDING_CODE_LOG_ALTERED: FindingCode
GARBAGE_KIND_UNSPECIFIED: GarbageKind
GARBAGE_KIND_PART: GarbageKind
GARBAGE_KIND_OPEN_RECORD: GarbageKind
GARBAGE_KIND_FACTS: GarbageKind
GARBAGE_KIND_CHECKPOINT: GarbageKind
GARBAGE_KIND_DRAFT: GarbageKind
GARBAGE_KIND_FORMER_JOURNAL: GarbageKind
GARBAGE_KIND_QUARANTINED: GarbageKind
GARBAGE_KIND_EXTRACT: GarbageKind

class ExplainTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ...) -> None: ...

class ExplainTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table", "findings")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: _tables_pb2.Table
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[_tables_pb2.Table, _Mapping]] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class ExplainTransactionRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "token", "key", "transaction_id", "attempt")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    token: str
    key: str
    transaction_id: str
    attempt: int
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., token: _Optional[str] = ..., key: _Optional[str] = ..., transaction_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class ExplainTransactionResponse(_message.Message):
    __slots__ = ("latest_snapshot", "state", "text", "remedy", "outcome", "open", "winner", "attempts", "round", "ahead", "before", "behind", "waiting", "obstacles", "remembered_since")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    WINNER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OBSTACLES_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    state: TransactionState
    text: str
    remedy: str
    outcome: _transactions_pb2.Outcome
    open: _transactions_pb2.OpenTransaction
    winner: TransactionWinner
    attempts: _containers.RepeatedCompositeFieldContainer[_transactions_pb2.Outcome]
    round: _tables_pb2.Round
    ahead: _containers.RepeatedCompositeFieldContainer[_tables_pb2.Round]
    before: int
    behind: int
    waiting: _containers.RepeatedScalarFieldContainer[str]
    obstacles: _containers.RepeatedCompositeFieldContainer[TransactionObstacle]
    remembered_since: _timestamp_pb2.Timestamp
    def __init__(self, latest_snapshot: _Optional[int] = ..., state: _Optional[_Union[TransactionState, str]] = ..., text: _Optional[str] = ..., remedy: _Optional[str] = ..., outcome: _Optional[_Union[_transactions_pb2.Outcome, _Mapping]] = ..., open: _Optional[_Union[_transactions_pb2.OpenTransaction, _Mapping]] = ..., winner: _Optional[_Union[TransactionWinner, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[_transactions_pb2.Outcome, _Mapping]]] = ..., round: _Optional[_Union[_tables_pb2.Round, _Mapping]] = ..., ahead: _Optional[_Iterable[_Union[_tables_pb2.Round, _Mapping]]] = ..., before: _Optional[int] = ..., behind: _Optional[int] = ..., waiting: _Optional[_Iterable[str]] = ..., obstacles: _Optional[_Iterable[_Union[TransactionObstacle, _Mapping]]] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TransactionWinner(_message.Message):
    __slots__ = ("transaction_id", "key", "engine", "operation", "version", "probable", "text", "committed_at")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROBABLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    key: str
    engine: str
    operation: str
    version: int
    probable: bool
    text: str
    committed_at: _timestamp_pb2.Timestamp
    def __init__(self, transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., engine: _Optional[str] = ..., operation: _Optional[str] = ..., version: _Optional[int] = ..., probable: bool = ..., text: _Optional[str] = ..., committed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TransactionObstacle(_message.Message):
    __slots__ = ("table", "findings")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    table: str
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, table: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class FreezeTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "reason")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    reason: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class FreezeTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: _tables_pb2.Table
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[_tables_pb2.Table, _Mapping]] = ...) -> None: ...

class UnfreezeTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "reason")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    reason: str
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UnfreezeTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: _tables_pb2.Table
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[_tables_pb2.Table, _Mapping]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("code", "blocks", "text", "remedy", "since", "transaction_id", "key", "rule", "path", "winner", "version", "file", "property", "tables")
    CODE_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    WINNER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    PROPERTY_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    code: FindingCode
    blocks: bool
    text: str
    remedy: str
    since: _timestamp_pb2.Timestamp
    transaction_id: str
    key: str
    rule: _common_pb2.Rule
    path: str
    winner: str
    version: int
    file: str
    property: str
    tables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[_Union[FindingCode, str]] = ..., blocks: bool = ..., text: _Optional[str] = ..., remedy: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., rule: _Optional[_Union[_common_pb2.Rule, str]] = ..., path: _Optional[str] = ..., winner: _Optional[str] = ..., version: _Optional[int] = ..., file: _Optional[str] = ..., property: _Optional[str] = ..., tables: _Optional[_Iterable[str]] = ...) -> None: ...

class ResolveTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "preview", "reason", "plan", "give_up")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    GIVE_UP_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    preview: bool
    reason: str
    plan: str
    give_up: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., preview: bool = ..., reason: _Optional[str] = ..., plan: _Optional[str] = ..., give_up: bool = ...) -> None: ...

class ResolveTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table", "plan", "steps", "given_up", "freed", "still_frozen_by", "not_before")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    STILL_FROZEN_BY_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: _tables_pb2.Table
    plan: str
    steps: _containers.RepeatedCompositeFieldContainer[ResolveStep]
    given_up: _containers.RepeatedCompositeFieldContainer[ResolvedChange]
    freed: _containers.RepeatedScalarFieldContainer[str]
    still_frozen_by: _containers.RepeatedScalarFieldContainer[str]
    not_before: _timestamp_pb2.Timestamp
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[_tables_pb2.Table, _Mapping]] = ..., plan: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[ResolveStep, _Mapping]]] = ..., given_up: _Optional[_Iterable[_Union[ResolvedChange, _Mapping]]] = ..., freed: _Optional[_Iterable[str]] = ..., still_frozen_by: _Optional[_Iterable[str]] = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResolveStep(_message.Message):
    __slots__ = ("kind", "table", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    table: str
    text: str
    def __init__(self, kind: _Optional[str] = ..., table: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ResolvedChange(_message.Message):
    __slots__ = ("table", "change_number", "transaction_id", "key", "rule", "path", "detail", "elsewhere")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    table: str
    change_number: int
    transaction_id: str
    key: str
    rule: _common_pb2.Rule
    path: str
    detail: str
    elsewhere: _containers.RepeatedCompositeFieldContainer[ResolvedElsewhere]
    def __init__(self, table: _Optional[str] = ..., change_number: _Optional[int] = ..., transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., rule: _Optional[_Union[_common_pb2.Rule, str]] = ..., path: _Optional[str] = ..., detail: _Optional[str] = ..., elsewhere: _Optional[_Iterable[_Union[ResolvedElsewhere, _Mapping]]] = ...) -> None: ...

class ResolvedElsewhere(_message.Message):
    __slots__ = ("table", "state")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    table: str
    state: str
    def __init__(self, table: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class MaintainTableRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "table", "dry_run")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    table: str
    dry_run: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., table: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class MaintainTableResponse(_message.Message):
    __slots__ = ("latest_snapshot", "table", "dry_run", "version", "checkpoint", "clean_up", "payload_parts", "payload_bytes", "bytes_read", "bytes_written", "took")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CLEAN_UP_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_PARTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    table: _tables_pb2.Table
    dry_run: bool
    version: int
    checkpoint: CheckpointReport
    clean_up: CleanUpReport
    payload_parts: int
    payload_bytes: int
    bytes_read: int
    bytes_written: int
    took: _duration_pb2.Duration
    def __init__(self, latest_snapshot: _Optional[int] = ..., table: _Optional[_Union[_tables_pb2.Table, _Mapping]] = ..., dry_run: bool = ..., version: _Optional[int] = ..., checkpoint: _Optional[_Union[CheckpointReport, _Mapping]] = ..., clean_up: _Optional[_Union[CleanUpReport, _Mapping]] = ..., payload_parts: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., bytes_read: _Optional[int] = ..., bytes_written: _Optional[int] = ..., took: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CheckpointReport(_message.Message):
    __slots__ = ("before", "interval", "written", "skipped", "name", "v2", "files", "bytes", "sidecars", "sidecars_reused", "passed_over")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    V2_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SIDECARS_FIELD_NUMBER: _ClassVar[int]
    SIDECARS_REUSED_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    before: int
    interval: int
    written: bool
    skipped: str
    name: str
    v2: bool
    files: int
    bytes: int
    sidecars: int
    sidecars_reused: int
    passed_over: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, before: _Optional[int] = ..., interval: _Optional[int] = ..., written: bool = ..., skipped: _Optional[str] = ..., name: _Optional[str] = ..., v2: bool = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., sidecars: _Optional[int] = ..., sidecars_reused: _Optional[int] = ..., passed_over: _Optional[_Iterable[str]] = ...) -> None: ...

class CleanUpReport(_message.Message):
    __slots__ = ("cut", "cutoff", "commits", "checkpoints", "sidecars", "others", "bytes", "held_by", "skipped", "sidecars_kept")
    CUT_FIELD_NUMBER: _ClassVar[int]
    CUTOFF_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    SIDECARS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SIDECARS_KEPT_FIELD_NUMBER: _ClassVar[int]
    cut: int
    cutoff: _timestamp_pb2.Timestamp
    commits: int
    checkpoints: int
    sidecars: int
    others: int
    bytes: int
    held_by: str
    skipped: str
    sidecars_kept: str
    def __init__(self, cut: _Optional[int] = ..., cutoff: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., commits: _Optional[int] = ..., checkpoints: _Optional[int] = ..., sidecars: _Optional[int] = ..., others: _Optional[int] = ..., bytes: _Optional[int] = ..., held_by: _Optional[str] = ..., skipped: _Optional[str] = ..., sidecars_kept: _Optional[str] = ...) -> None: ...

class CollectGarbageRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "remove", "former_journals", "quarantine_for")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    FORMER_JOURNALS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_FOR_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    remove: bool
    former_journals: bool
    quarantine_for: _duration_pb2.Duration
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., remove: bool = ..., former_journals: bool = ..., quarantine_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CollectGarbageResponse(_message.Message):
    __slots__ = ("latest_snapshot", "removed", "run", "found", "totals", "more", "min_age", "young", "unknown", "skipped", "quarantines", "unknown_keys")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    YOUNG_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINES_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_KEYS_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    removed: bool
    run: str
    found: _containers.RepeatedCompositeFieldContainer[Garbage]
    totals: _containers.RepeatedCompositeFieldContainer[GarbageTotal]
    more: bool
    min_age: _duration_pb2.Duration
    young: GarbageTotal
    unknown: GarbageTotal
    skipped: _containers.RepeatedScalarFieldContainer[str]
    quarantines: _containers.RepeatedCompositeFieldContainer[Quarantine]
    unknown_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, latest_snapshot: _Optional[int] = ..., removed: bool = ..., run: _Optional[str] = ..., found: _Optional[_Iterable[_Union[Garbage, _Mapping]]] = ..., totals: _Optional[_Iterable[_Union[GarbageTotal, _Mapping]]] = ..., more: bool = ..., min_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., young: _Optional[_Union[GarbageTotal, _Mapping]] = ..., unknown: _Optional[_Union[GarbageTotal, _Mapping]] = ..., skipped: _Optional[_Iterable[str]] = ..., quarantines: _Optional[_Iterable[_Union[Quarantine, _Mapping]]] = ..., unknown_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class Garbage(_message.Message):
    __slots__ = ("kind", "key", "in_store", "bytes", "age", "why")
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    IN_STORE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    kind: GarbageKind
    key: str
    in_store: bool
    bytes: int
    age: _duration_pb2.Duration
    why: str
    def __init__(self, kind: _Optional[_Union[GarbageKind, str]] = ..., key: _Optional[str] = ..., in_store: bool = ..., bytes: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class GarbageTotal(_message.Message):
    __slots__ = ("kind", "count", "bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: GarbageKind
    count: int
    bytes: int
    def __init__(self, kind: _Optional[_Union[GarbageKind, str]] = ..., count: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Quarantine(_message.Message):
    __slots__ = ("run", "count", "bytes", "since")
    RUN_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    run: str
    count: int
    bytes: int
    since: _timestamp_pb2.Timestamp
    def __init__(self, run: _Optional[str] = ..., count: _Optional[int] = ..., bytes: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RestoreGarbageRequest(_message.Message):
    __slots__ = ("catalog", "at_least_snapshot", "run", "dry_run")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    at_least_snapshot: int
    run: str
    dry_run: bool
    def __init__(self, catalog: _Optional[str] = ..., at_least_snapshot: _Optional[int] = ..., run: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class RestoreGarbageResponse(_message.Message):
    __slots__ = ("latest_snapshot", "dry_run", "count", "bytes", "taken", "refused", "copies_kept")
    LATEST_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COPIES_KEPT_FIELD_NUMBER: _ClassVar[int]
    latest_snapshot: int
    dry_run: bool
    count: int
    bytes: int
    taken: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.RepeatedScalarFieldContainer[str]
    copies_kept: bool
    def __init__(self, latest_snapshot: _Optional[int] = ..., dry_run: bool = ..., count: _Optional[int] = ..., bytes: _Optional[int] = ..., taken: _Optional[_Iterable[str]] = ..., refused: _Optional[_Iterable[str]] = ..., copies_kept: bool = ...) -> None: ...
