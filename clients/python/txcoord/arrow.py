"""Writes Arrow data as Parquet files of a Delta table, and makes their `add` actions."""

from __future__ import annotations

import json
import math
import time
import urllib.parse
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

# Writer features that ask nothing of who only adds files with plain columns.
_PLAIN = {
    "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns",
    "identityColumns", "inCommitTimestamp", "invariants", "rowTracking", "timestampNtz", "txcoordFence", "v2Checkpoint", "vacuumProtocolCheck",
}
# Of these, what a table must not make use of: the values of its rows would have to be computed
# or checked, or its columns have other names in files.
_COLUMN_KEYS = ("delta.generationExpression", "delta.identity.start", "delta.invariants")

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
    table lacks is an error. Types are cast safely. ``filesystem`` (``pyarrow.fs``) is where the
    table's URI is looked up; left out, pyarrow makes it of the URI. Nothing is visible before the
    commit: a file whose transaction does not commit is removed by the table's VACUUM.
    """
    import pyarrow as pa
    import pyarrow.fs
    import pyarrow.parquet as pq

    state = described.state
    if not state.schema_json:
        raise UnsupportedTable(f"{described.table.name}: its log cannot be read: {'; '.join(described.warnings)}")
    _refuse(described.table.name, state)
    schema = _schema(pa, json.loads(state.schema_json))
    table = _fit(pa, data if isinstance(data, pa.Table) else pa.table(data), schema)
    uri = described.table.uri.replace("s3a://", "s3://", 1)
    if filesystem is None:
        filesystem, root = pyarrow.fs.FileSystem.from_uri(uri)
    else:
        root = urllib.parse.unquote(urllib.parse.urlsplit(uri).path) if uri.startswith("file:") else uri.split("://", 1)[1]
    adds = []
    for values, part in _partitions(pa, table, list(state.partition_columns)):
        folder = "".join(f"{_escape(c)}={_escape(v) if v is not None else '__HIVE_DEFAULT_PARTITION__'}/" for c, v in values.items())
        path = f"{folder}part-{prefix}-{uuid.uuid4()}.parquet"
        if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
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
    unknown = sorted(set(data.column_names) - set(schema.names))
    if unknown:
        raise ValueError(f"the table has no column {', '.join(unknown)}; it has {', '.join(schema.names)}")
    columns = []
    for field in schema:
        if field.name not in data.column_names:
            column = pa.nulls(data.num_rows, field.type)
        else:
            try:
                column = data.column(field.name).cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"column {field.name} does not fit {field.type}: {error}") from None
        if column.null_count and not field.nullable:
            raise ValueError(f"column {field.name} is not nullable, and {column.null_count} rows have no value")
        columns.append(column)
    return pa.table(columns, schema=schema)


def _partitions(pa: Any, table: Any, columns: List[str]) -> Iterator[Tuple[Dict[str, Optional[str]], Any]]:
    """The rows of each partition, without its columns, and the partition's values as Delta writes them."""
    if not columns:
        if table.num_rows:
            yield {}, table
        return
    keys = [[_text(v) for v in table.column(c).to_pylist()] for c in columns]
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
        return value.decode("utf-8")
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


def _escape(text: str) -> str:
    """As Hive does in folder names."""
    return urllib.parse.quote(text, safe=" -_.~()@&$!*+,;")


# Longer strings are cut for their bound, as other writers do.
_PREFIX = 32


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
            from datetime import timedelta

            ms += timedelta(milliseconds=1)
        text = ms.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms.microsecond // 1000:03d}"
        return text + ("Z" if value.tzinfo is not None else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if Decimal(float(value)) == value else None
    return value


def _cut(text: str, upper: bool) -> Optional[str]:
    if len(text) <= _PREFIX:
        return text
    # An upper bound has to be above every string that begins so.
    return text[:_PREFIX] + "\U0010ffff" if upper else text[:_PREFIX]
