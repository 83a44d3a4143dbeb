import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from txcoord.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_REQUEST: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_ACTION: _ClassVar[ErrorReason]
    ERROR_REASON_LIMIT_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_TOKEN: _ClassVar[ErrorReason]
    ERROR_REASON_CATALOG_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_TRANSACTION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_SNAPSHOT_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_LEASE_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_ABORTED: _ClassVar[ErrorReason]
    ERROR_REASON_OTHER_DIGESTS: _ClassVar[ErrorReason]
    ERROR_REASON_KEY_COMMITTED: _ClassVar[ErrorReason]
    ERROR_REASON_APP_VERSION_APPLIED: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_LEASE_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_PART_NOT_STAGED: _ClassVar[ErrorReason]
    ERROR_REASON_PART_UNREADABLE: _ClassVar[ErrorReason]
    ERROR_REASON_FEATURE_UNSUPPORTED: _ClassVar[ErrorReason]
    ERROR_REASON_DECIDED_NOT_OFFERED: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_FROZEN: _ClassVar[ErrorReason]
    ERROR_REASON_OUTCOME_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_WRONG_MODE: _ClassVar[ErrorReason]
    ERROR_REASON_ATTEMPT_UNDECIDED: _ClassVar[ErrorReason]
    ERROR_REASON_TOKEN_STALE: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_OWNED: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_PROPERTY: _ClassVar[ErrorReason]
    ERROR_REASON_CHANGES_PENDING: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_A_TABLE: _ClassVar[ErrorReason]
    ERROR_REASON_NOTHING_TO_RESOLVE: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_EARLY: _ClassVar[ErrorReason]
    ERROR_REASON_PLAN_CHANGED: _ClassVar[ErrorReason]
    ERROR_REASON_MAINTENANCE_OFF: _ClassVar[ErrorReason]
    ERROR_REASON_OBJECTS_UNSUITABLE: _ClassVar[ErrorReason]
    ERROR_REASON_READ_POINT_TOO_OLD: _ClassVar[ErrorReason]
    ERROR_REASON_SNAPSHOT_OUT_OF_RANGE: _ClassVar[ErrorReason]
    ERROR_REASON_QUOTA_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_OBJECTS_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_OUTCOME_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_REPLICA_BEHIND: _ClassVar[ErrorReason]
    ERROR_REASON_SHUTTING_DOWN: _ClassVar[ErrorReason]
    ERROR_REASON_TABLE_RESERVED: _ClassVar[ErrorReason]
    ERROR_REASON_LOG_CONTRADICTION: _ClassVar[ErrorReason]
    ERROR_REASON_JOURNAL_CONTRADICTION: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_PERMISSION_DENIED: _ClassVar[ErrorReason]
    ERROR_REASON_BROKEN_INVARIANT: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_REQUEST: ErrorReason
ERROR_REASON_INVALID_ACTION: ErrorReason
ERROR_REASON_LIMIT_EXCEEDED: ErrorReason
ERROR_REASON_INVALID_TOKEN: ErrorReason
ERROR_REASON_CATALOG_NOT_FOUND: ErrorReason
ERROR_REASON_TABLE_NOT_FOUND: ErrorReason
ERROR_REASON_TRANSACTION_NOT_FOUND: ErrorReason
ERROR_REASON_SNAPSHOT_NOT_FOUND: ErrorReason
ERROR_REASON_LEASE_NOT_FOUND: ErrorReason
ERROR_REASON_CONFLICT: ErrorReason
ERROR_REASON_EXPIRED: ErrorReason
ERROR_REASON_ABORTED: ErrorReason
ERROR_REASON_OTHER_DIGESTS: ErrorReason
ERROR_REASON_KEY_COMMITTED: ErrorReason
ERROR_REASON_APP_VERSION_APPLIED: ErrorReason
ERROR_REASON_TABLE_EXISTS: ErrorReason
ERROR_REASON_LEASE_EXISTS: ErrorReason
ERROR_REASON_PART_NOT_STAGED: ErrorReason
ERROR_REASON_PART_UNREADABLE: ErrorReason
ERROR_REASON_FEATURE_UNSUPPORTED: ErrorReason
ERROR_REASON_DECIDED_NOT_OFFERED: ErrorReason
ERROR_REASON_TABLE_FROZEN: ErrorReason
ERROR_REASON_OUTCOME_EXPIRED: ErrorReason
ERROR_REASON_WRONG_MODE: ErrorReason
ERROR_REASON_ATTEMPT_UNDECIDED: ErrorReason
ERROR_REASON_TOKEN_STALE: ErrorReason
ERROR_REASON_TABLE_OWNED: ErrorReason
ERROR_REASON_TABLE_PROPERTY: ErrorReason
ERROR_REASON_CHANGES_PENDING: ErrorReason
ERROR_REASON_NOT_A_TABLE: ErrorReason
ERROR_REASON_NOTHING_TO_RESOLVE: ErrorReason
ERROR_REASON_TOO_EARLY: ErrorReason
ERROR_REASON_PLAN_CHANGED: ErrorReason
ERROR_REASON_MAINTENANCE_OFF: ErrorReason
ERROR_REASON_OBJECTS_UNSUITABLE: ErrorReason
ERROR_REASON_READ_POINT_TOO_OLD: ErrorReason
ERROR_REASON_SNAPSHOT_OUT_OF_RANGE: ErrorReason
ERROR_REASON_QUOTA_EXCEEDED: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_OBJECTS_UNAVAILABLE: ErrorReason
ERROR_REASON_OUTCOME_UNKNOWN: ErrorReason
ERROR_REASON_REPLICA_BEHIND: ErrorReason
ERROR_REASON_SHUTTING_DOWN: ErrorReason
ERROR_REASON_TABLE_RESERVED: ErrorReason
ERROR_REASON_LOG_CONTRADICTION: ErrorReason
ERROR_REASON_JOURNAL_CONTRADICTION: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_PERMISSION_DENIED: ErrorReason
ERROR_REASON_BROKEN_INVARIANT: ErrorReason

class ConflictDetail(_message.Message):
    __slots__ = ("table", "table_id", "version", "rule", "path", "winner", "detail", "transaction_id", "attempt")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    WINNER_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    table: str
    table_id: str
    version: int
    rule: _common_pb2.Rule
    path: str
    winner: str
    detail: str
    transaction_id: str
    attempt: int
    def __init__(self, table: _Optional[str] = ..., table_id: _Optional[str] = ..., version: _Optional[int] = ..., rule: _Optional[_Union[_common_pb2.Rule, str]] = ..., path: _Optional[str] = ..., winner: _Optional[str] = ..., detail: _Optional[str] = ..., transaction_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class LimitDetail(_message.Message):
    __slots__ = ("name", "value", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    limit: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class FieldDetail(_message.Message):
    __slots__ = ("field", "line", "value", "remedy", "table")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    field: str
    line: int
    value: str
    remedy: str
    table: str
    def __init__(self, field: _Optional[str] = ..., line: _Optional[int] = ..., value: _Optional[str] = ..., remedy: _Optional[str] = ..., table: _Optional[str] = ...) -> None: ...

class FrozenDetail(_message.Message):
    __slots__ = ("table", "table_id", "cause", "transaction_id", "reason", "since")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    table: str
    table_id: str
    cause: _common_pb2.FreezeCause
    transaction_id: str
    reason: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, table: _Optional[str] = ..., table_id: _Optional[str] = ..., cause: _Optional[_Union[_common_pb2.FreezeCause, str]] = ..., transaction_id: _Optional[str] = ..., reason: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FeatureDetail(_message.Message):
    __slots__ = ("table", "feature")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    table: str
    feature: str
    def __init__(self, table: _Optional[str] = ..., feature: _Optional[str] = ...) -> None: ...

class TransactionDetail(_message.Message):
    __slots__ = ("transaction_id", "key", "attempt")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    key: str
    attempt: int
    def __init__(self, transaction_id: _Optional[str] = ..., key: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class TableDetail(_message.Message):
    __slots__ = ("table", "table_id", "version", "file", "reason", "uri", "out_of_reach")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_REACH_FIELD_NUMBER: _ClassVar[int]
    table: str
    table_id: str
    version: int
    file: str
    reason: str
    uri: str
    out_of_reach: bool
    def __init__(self, table: _Optional[str] = ..., table_id: _Optional[str] = ..., version: _Optional[int] = ..., file: _Optional[str] = ..., reason: _Optional[str] = ..., uri: _Optional[str] = ..., out_of_reach: bool = ...) -> None: ...

class OwnerDetail(_message.Message):
    __slots__ = ("uri", "catalog_id", "incarnation", "since")
    URI_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    uri: str
    catalog_id: str
    incarnation: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, uri: _Optional[str] = ..., catalog_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
