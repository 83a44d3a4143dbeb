"""Writes Arrow data as Parquet files of a Delta table, and makes their `add` actions."""

from __future__ import annotations

import json
import math
import os
import time
import urllib.parse
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from txcoord.v1 import tables_pb2

# Writer features that ask nothing of who only adds files with plain columns.
_PLAIN = {
    "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns",
    "identityColumns", "inCommitTimestamp", "invariants", "rowTracking", "timestampNtz", "txcoordFence", "v2Checkpoint", "vacuumProtocolCheck",
}
# Of these, what a table must not make use of: the values of its rows would have to be computed
# or checked, or its columns have other names in files.
_COLUMN_KEYS = ("delta.generationExpression", "delta.identity.start", "delta.invariants", "CURRENT_DEFAULT")

_ARROW = {
    "string": "string", "long": "int64", "integer": "int32", "short": "int16", "byte": "int8", "float": "float32",
    "double": "float64", "boolean": "bool_", "binary": "binary", "date": "date32",
}


class UnsupportedTable(ValueError):
    """The table asks more of its writers than adding files with plain columns."""


def write(described: Any, data: Any, prefix: str, *, filesystem: Any = None, compression: str = "zstd") -> List[Dict[str, Any]]:
    """Writes an Arrow table (or anything ``pyarrow.table`` takes) below the folder of a described
    table, one file for each partition, and returns an `add` action for each file.

    Columns go by name; one that is missing is null, where the schema lets it, and one that the
    table lacks, also inside a struct, is an error. Types are widened where no value changes (of
    floats the precision may); what would change a value is an error that names the column.
    ``filesystem`` (``pyarrow.fs``) is where the table's folder is looked up; left out, pyarrow makes
    it of the URI. Nothing is visible before the commit: a file whose transaction does not commit is
    removed by the table's VACUUM.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.fs import LocalFileSystem

    state = described.state
    if not state.schema_json:
        raise UnsupportedTable(f"{described.table.name}: its log cannot be read: {'; '.join(described.warnings)}")
    _refuse(described.table.name, state)
    schema = _schema(pa, json.loads(state.schema_json))
    table = _fit(pa, data if isinstance(data, pa.Table) else pa.table(data), schema)
    if filesystem is None:
        filesystem, root = _open(described.table.uri)
    else:
        root = path_of(described.table.uri)
    adds = []
    for values, part in _partitions(pa, table, list(state.partition_columns)):
        folder = _folder(values)
        path = f"{folder}part-{prefix}-{uuid.uuid4()}.parquet"
        if isinstance(filesystem, LocalFileSystem):
            filesystem.create_dir(f"{root}/{folder}".rstrip("/"), recursive=True)
        with filesystem.open_output_stream(f"{root}/{path}") as out:
            # Timestamps as engines expect them, whatever pyarrow's default is.
            pq.write_table(part, out, compression=compression, coerce_timestamps="us", version="2.6")
        size = filesystem.get_file_info(f"{root}/{path}").size
        adds.append({"add": {
            "path": urllib.parse.quote(path, safe="/=-_.~"), "partitionValues": values, "size": size,
            "modificationTime": int(time.time() * 1000), "dataChange": True, "stats": json.dumps(_stats(pa, part)),
        }})
    return adds


def described(name: str, table: Any) -> Any:
    """A table that is still to be made (``NewTable``), for ``write``."""
    uri = f"file://{urllib.parse.quote(table.uri)}" if table.uri.startswith("/") else table.uri
    scheme, separator, rest = uri.partition("://")
    if not separator:
        raise ValueError(f"{name}: uri {table.uri!r} is no location: give an absolute path, or a URI such as s3://bucket/path")
    if scheme in ("s3a", "s3n"):
        uri = f"s3://{rest}"
    state = tables_pb2.TableState(schema_json=table.schema_json, partition_columns=table.partition_columns, properties=table.properties)
    return tables_pb2.DescribeTableResponse(table=tables_pb2.Table(name=name, uri=uri), state=state)


def path_of(uri: str) -> str:
    """Where a table lies in its file system. The catalog's URIs are spelled out but for `%`, `?` and `#`."""
    authority, slash, key = uri.split("://", 1)[1].partition("/")
    return authority.split("@")[0] + slash + urllib.parse.unquote(key)  # abfss://CONTAINER@ACCOUNT…


def _open(uri: str) -> Tuple[Any, str]:
    from pyarrow.fs import FileSystem, LocalFileSystem

    if uri.startswith("file://"):
        return LocalFileSystem(), path_of(uri)
    scheme, rest = uri.split("://", 1)
    bucket = rest.split("/", 1)[0]  # the path behind it may hold what a URI may not
    if scheme == "az":
        account = os.environ.get("AZURE_STORAGE_ACCOUNT")
        if not account:
            raise ValueError(f"{uri} names no storage account: set AZURE_STORAGE_ACCOUNT, or give filesystem, a pyarrow.fs.AzureFileSystem")
        scheme, bucket = "abfss", f"{account}@{bucket}"
    return FileSystem.from_uri(f"{scheme}://{bucket}")[0], path_of(uri)


# A folder's name may be so long on common file systems, with room for an escape.
_NAME = 240


def _folder(values: Mapping[str, Optional[str]]) -> str:
    """The folder of a partition, as Hive names it; none where a name would be too long."""
    names = [f"{_escape(c)}={'__HIVE_DEFAULT_PARTITION__' if v is None else _escape(v)}" for c, v in values.items()]
    return "".join(f"{n}/" for n in names) if all(len(n) <= _NAME for n in names) else ""


def _refuse(name: str, state: Any) -> None:
    beyond = sorted(set(state.writer_features) - _PLAIN)
    if beyond:
        raise UnsupportedTable(f"{name} has the writer features {', '.join(beyond)}: write its files with an engine, and stage their actions")
    if state.properties.get("delta.columnMapping.mode", "none") != "none":
        raise UnsupportedTable(f"{name} has column mapping: write its files with an engine, and stage their actions")
    constraints = sorted(k for k in state.properties if k.startswith("delta.constraints."))
    if constraints:
        raise UnsupportedTable(f"{name} has {', '.join(constraints)}: rows have to be checked by an engine")
    for field in _all_fields(json.loads(state.schema_json)):
        for key in _COLUMN_KEYS:
            if key in (field.get("metadata") or {}):
                raise UnsupportedTable(f"{name}: column {field['name']} has {key}: rows have to be computed or checked by an engine")


def _all_fields(kind: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field
            yield from _all_fields(field["type"])
        for key in ("elementType", "keyType", "valueType"):
            yield from _all_fields(kind.get(key))


def _schema(pa: Any, struct: Mapping[str, Any]) -> Any:
    return pa.schema([pa.field(f["name"], _type(pa, f["type"]), f["nullable"]) for f in struct["fields"]])


def _type(pa: Any, kind: Any) -> Any:
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            return pa.struct([pa.field(f["name"], _type(pa, f["type"]), f["nullable"]) for f in kind["fields"]])
        if kind["type"] == "array":
            return pa.list_(pa.field("element", _type(pa, kind["elementType"]), kind["containsNull"]))
        if kind["type"] == "map":
            return pa.map_(_type(pa, kind["keyType"]), pa.field("value", _type(pa, kind["valueType"]), kind["valueContainsNull"]))
    elif kind in _ARROW:
        return getattr(pa, _ARROW[kind])()
    elif kind == "timestamp":
        return pa.timestamp("us", tz="UTC")
    elif kind == "timestamp_ntz":
        return pa.timestamp("us")
    elif kind.startswith("decimal("):
        precision, scale = kind[len("decimal("):-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    raise UnsupportedTable(f"columns of type {kind} are written by an engine alone")


def _fit(pa: Any, data: Any, schema: Any) -> Any:
    """The data with the table's columns, in their order and types. Nothing is lost or made up on the way."""
    _known("", "the table", schema.names, data.column_names)
    columns = []
    for field in schema:
        if field.name not in data.column_names:
            column = pa.nulls(data.num_rows, field.type)
        else:
            column = data.column(field.name)
            _convertible(pa, field.name, column.type, field.type)
            try:
                cast = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"column {field.name} does not fit {field.type}: {error}") from None
            if pa.types.is_float32(field.type) and _infinite(column) != _infinite(cast):
                raise ValueError(f"column {field.name} does not fit {field.type}: a value is too large")
            column = cast
        if column.null_count and not field.nullable:
            raise ValueError(f"column {field.name} is not nullable, and {column.null_count} rows have no value")
        columns.append(column)
    return pa.table(columns, schema=schema)


def _known(path: str, where: str, has: List[str], given: List[str]) -> None:
    unknown = sorted(set(given) - set(has))
    if unknown:
        raise ValueError(f"{where} has no column {', '.join(path + n for n in unknown)}; it has {', '.join(path + n for n in has)}")


def _infinite(column: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.is_inf(column)).as_py() or 0


def _convertible(pa: Any, path: str, have: Any, want: Any) -> None:
    """Refuses what a cast would turn into something else, and fields that it would leave out."""
    t = pa.types
    if t.is_dictionary(have):
        have = have.value_type
    lists = lambda k: t.is_list(k) or t.is_large_list(k) or t.is_fixed_size_list(k)  # noqa: E731
    if t.is_null(have) or have.equals(want):
        return
    if t.is_struct(want) and t.is_struct(have):
        fields = {f.name: f.type for f in want}
        _known(f"{path}.", f"column {path}", list(fields), [f.name for f in have])
        for f in have:
            _convertible(pa, f"{path}.{f.name}", f.type, fields[f.name])
        return
    if t.is_map(want) and t.is_map(have):
        _convertible(pa, f"{path}.key", have.key_type, want.key_type)
        _convertible(pa, f"{path}.value", have.item_type, want.item_type)
        return
    if lists(want) and lists(have):
        _convertible(pa, f"{path}.element", have.value_type, want.value_type)
        return
    texts = lambda k: t.is_string(k) or t.is_large_string(k) or t.is_string_view(k)  # noqa: E731
    blobs = lambda k: t.is_binary(k) or t.is_large_binary(k) or t.is_fixed_size_binary(k)  # noqa: E731
    numbers = lambda k: t.is_integer(k) or t.is_floating(k) or t.is_decimal(k)  # noqa: E731
    zoned = lambda k: t.is_timestamp(k) and k.tz is not None  # noqa: E731
    naive = lambda k: t.is_timestamp(k) and k.tz is None  # noqa: E731
    for kind in (texts, blobs, t.is_date, t.is_boolean, zoned, naive):
        if kind(have) and kind(want):
            return
    if numbers(have) and numbers(want) and not (t.is_floating(have) and not t.is_floating(want)):
        return
    hint = "give its times a zone" if naive(have) and zoned(want) else "cast it yourself, if that is meant"
    raise ValueError(f"column {path} is of type {have} and does not fit {want}: {hint}")


def _partitions(pa: Any, table: Any, columns: List[str]) -> Iterator[Tuple[Dict[str, Optional[str]], Any]]:
    """The rows of each partition, without its columns, and the partition's values as Delta writes them."""
    if not columns:
        if table.num_rows:
            yield {}, table
        return
    keys = [[_text(v) for v in table.column(c).to_pylist()] for c in columns]
    for c, texts in zip(columns, keys):
        if None in texts and not table.schema.field(c).nullable:
            raise ValueError(f"column {c} is not nullable, and as a partition's value an empty string is null")
    rows: Dict[Tuple[Optional[str], ...], List[int]] = {}
    for i, key in enumerate(zip(*keys)):
        rows.setdefault(key, []).append(i)
    for key, taken in rows.items():
        yield dict(zip(columns, key)), table.drop_columns(columns).take(pa.array(taken))


def _text(value: Any) -> Optional[str]:
    """A partition value as Delta writes it; empty strings are null there."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"the partition value {value!r} is no text, and Delta's log holds texts") from None
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        return value.isoformat(sep=" ", timespec="microseconds")
    return str(value)


def _escape(text: str) -> str:
    """As Hive does in folder names."""
    return urllib.parse.quote(text, safe=" -_.~()@&$!*+,;")


# Longer strings are cut for their bound, as other writers do.
_PREFIX = 32
_HIGHEST = "\U0010ffff"


def _stats(pa: Any, table: Any) -> Dict[str, Any]:
    """Row count, and of the plain columns null counts and bounds."""
    import pyarrow.compute as pc

    low: Dict[str, Any] = {}
    high: Dict[str, Any] = {}
    nulls: Dict[str, int] = {}
    for field in table.schema:
        if pa.types.is_nested(field.type):
            continue
        column = table.column(field.name)
        nulls[field.name] = column.null_count
        if pa.types.is_boolean(field.type) or pa.types.is_binary(field.type) or column.null_count == len(column):
            continue
        bounds = pc.min_max(column)
        least, most = _bound(bounds["min"].as_py(), False), _bound(bounds["max"].as_py(), True)
        if pa.types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py():
            continue  # no bound holds for it
        if least is not None and most is not None:
            low[field.name], high[field.name] = least, most
    return {"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bound(value: Any, upper: bool) -> Any:
    if isinstance(value, str):
        return _cut(value, upper)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):  # in milliseconds, away from the rows
        ms = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if upper and ms != value:
            try:
                ms += timedelta(milliseconds=1)
            except OverflowError:
                return None
        return ms.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if value.tzinfo is not None else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else None
    return value


def _cut(text: str, upper: bool) -> Optional[str]:
    if len(text) <= _PREFIX:
        return text
    if not upper:
        return text[:_PREFIX]
    # An upper bound has to be above every string that begins so.
    return None if text[_PREFIX] == _HIGHEST else text[:_PREFIX] + _HIGHEST
