import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TableMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TABLE_MODE_UNSPECIFIED: _ClassVar[TableMode]
    TABLE_MODE_OPEN: _ClassVar[TableMode]
    TABLE_MODE_EXCLUSIVE: _ClassVar[TableMode]
    TABLE_MODE_FENCED: _ClassVar[TableMode]
    TABLE_MODE_DELTA_STORAGE: _ClassVar[TableMode]

class Rule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULE_UNSPECIFIED: _ClassVar[Rule]
    RULE_PROTOCOL: _ClassVar[Rule]
    RULE_METADATA: _ClassVar[Rule]
    RULE_DELETE_DELETE: _ClassVar[Rule]
    RULE_DELETE_READ: _ClassVar[Rule]
    RULE_APPEND_READ: _ClassVar[Rule]
    RULE_APP_VERSION: _ClassVar[Rule]
    RULE_DOMAIN: _ClassVar[Rule]
    RULE_SCHEMA: _ClassVar[Rule]
    RULE_APPEND_ONLY: _ClassVar[Rule]
    RULE_PATH_EXISTS: _ClassVar[Rule]
    RULE_PATH_MISSING: _ClassVar[Rule]
    RULE_TABLE_REPLACED: _ClassVar[Rule]
    RULE_EXPIRED: _ClassVar[Rule]
    RULE_CLIENT: _ClassVar[Rule]
    RULE_OPERATOR: _ClassVar[Rule]
    RULE_RESOLVED: _ClassVar[Rule]
    RULE_TABLE_RELEASED: _ClassVar[Rule]
    RULE_TABLE_EXISTS: _ClassVar[Rule]

class FreezeCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FREEZE_CAUSE_UNSPECIFIED: _ClassVar[FreezeCause]
    FREEZE_CAUSE_STALLED: _ClassVar[FreezeCause]
    FREEZE_CAUSE_DIVERGED: _ClassVar[FreezeCause]
    FREEZE_CAUSE_REPLACED: _ClassVar[FreezeCause]
    FREEZE_CAUSE_CONTRADICTION: _ClassVar[FreezeCause]
    FREEZE_CAUSE_OPERATOR: _ClassVar[FreezeCause]
    FREEZE_CAUSE_LOST: _ClassVar[FreezeCause]

class Isolation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_UNSPECIFIED: _ClassVar[Isolation]
    ISOLATION_SERIALIZABLE: _ClassVar[Isolation]
    ISOLATION_WRITE_SERIALIZABLE: _ClassVar[Isolation]
TABLE_MODE_UNSPECIFIED: TableMode
TABLE_MODE_OPEN: TableMode
TABLE_MODE_EXCLUSIVE: TableMode
TABLE_MODE_FENCED: TableMode
TABLE_MODE_DELTA_STORAGE: TableMode
RULE_UNSPECIFIED: Rule
RULE_PROTOCOL: Rule
RULE_METADATA: Rule
RULE_DELETE_DELETE: Rule
RULE_DELETE_READ: Rule
RULE_APPEND_READ: Rule
RULE_APP_VERSION: Rule
RULE_DOMAIN: Rule
RULE_SCHEMA: Rule
RULE_APPEND_ONLY: Rule
RULE_PATH_EXISTS: Rule
RULE_PATH_MISSING: Rule
RULE_TABLE_REPLACED: Rule
RULE_EXPIRED: Rule
RULE_CLIENT: Rule
RULE_OPERATOR: Rule
RULE_RESOLVED: Rule
RULE_TABLE_RELEASED: Rule
RULE_TABLE_EXISTS: Rule
FREEZE_CAUSE_UNSPECIFIED: FreezeCause
FREEZE_CAUSE_STALLED: FreezeCause
FREEZE_CAUSE_DIVERGED: FreezeCause
FREEZE_CAUSE_REPLACED: FreezeCause
FREEZE_CAUSE_CONTRADICTION: FreezeCause
FREEZE_CAUSE_OPERATOR: FreezeCause
FREEZE_CAUSE_LOST: FreezeCause
ISOLATION_UNSPECIFIED: Isolation
ISOLATION_SERIALIZABLE: Isolation
ISOLATION_WRITE_SERIALIZABLE: Isolation

class ReadDeclaration(_message.Message):
    __slots__ = ("blind", "version", "snapshot_version", "read_set", "isolation", "apps")
    BLIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    READ_SET_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    APPS_FIELD_NUMBER: _ClassVar[int]
    blind: bool
    version: int
    snapshot_version: int
    read_set: ReadSet
    isolation: Isolation
    apps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, blind: bool = ..., version: _Optional[int] = ..., snapshot_version: _Optional[int] = ..., read_set: _Optional[_Union[ReadSet, _Mapping]] = ..., isolation: _Optional[_Union[Isolation, str]] = ..., apps: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadSet(_message.Message):
    __slots__ = ("files", "partitions", "whole_table")
    FILES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_TABLE_FIELD_NUMBER: _ClassVar[int]
    files: FileSet
    partitions: PartitionPredicate
    whole_table: bool
    def __init__(self, files: _Optional[_Union[FileSet, _Mapping]] = ..., partitions: _Optional[_Union[PartitionPredicate, _Mapping]] = ..., whole_table: bool = ...) -> None: ...

class FileSet(_message.Message):
    __slots__ = ("paths",)
    PATHS_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, paths: _Optional[_Iterable[str]] = ...) -> None: ...

class PartitionPredicate(_message.Message):
    __slots__ = ("any_of",)
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    any_of: _containers.RepeatedCompositeFieldContainer[PartitionMatch]
    def __init__(self, any_of: _Optional[_Iterable[_Union[PartitionMatch, _Mapping]]] = ...) -> None: ...

class PartitionMatch(_message.Message):
    __slots__ = ("all_of",)
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    all_of: _containers.RepeatedCompositeFieldContainer[PartitionCondition]
    def __init__(self, all_of: _Optional[_Iterable[_Union[PartitionCondition, _Mapping]]] = ...) -> None: ...

class PartitionCondition(_message.Message):
    __slots__ = ("column", "value")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    column: str
    value: str
    def __init__(self, column: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Freeze(_message.Message):
    __slots__ = ("cause", "transaction_id", "reason", "since", "held")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    cause: FreezeCause
    transaction_id: str
    reason: str
    since: _timestamp_pb2.Timestamp
    held: bool
    def __init__(self, cause: _Optional[_Union[FreezeCause, str]] = ..., transaction_id: _Optional[str] = ..., reason: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., held: bool = ...) -> None: ...
