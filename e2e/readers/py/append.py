"""Appends small batches to a table with delta-rs, as a writer that does not know about txcoord would.

Takes one request on stdin and prints one line per batch: the version that holds it, or the error.
"""

import datetime
import decimal
import json
import os
import sys
import time
import uuid

import deltalake
import pyarrow as pa

CREATED = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("note", pa.string())])


def value(kind, n):
    """The n-th value of a type."""
    if pa.types.is_integer(kind):
        return n
    if pa.types.is_floating(kind):
        return float(n)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(n)
    if pa.types.is_boolean(kind):
        return n % 2 == 0
    if pa.types.is_date(kind):
        return datetime.date(2026, 1, 1)
    if pa.types.is_timestamp(kind):
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc if kind.tz else None)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "delta-rs %d" % n
    return None


def batch(schema, first, rows, constants):
    columns = []
    for field in schema:
        if field.name in constants:
            columns.append(pa.array([constants[field.name]] * rows, field.type))
        else:
            columns.append(pa.array([value(field.type, first + i) for i in range(rows)], field.type))
    return pa.table(columns, schema=schema)


def version_of(log, mark, above):
    """The version that carries our mark. delta-rs may already have loaded later ones, so the log is read."""
    version = above + 1
    while True:
        with open(os.path.join(log, "%020d.json" % version)) as commit:
            if mark in commit.readline():
                return version
        version += 1


def main():
    request = json.load(sys.stdin)
    path, rows, first = request["path"], request["rows"], request["first"]
    uri, options = request.get("uri") or path, request.get("storage_options")
    if request.get("create"):
        deltalake.DeltaTable.create(uri, schema=CREATED, mode="error", storage_options=options)
    table = deltalake.DeltaTable(uri, storage_options=options)
    schema = pa.schema(table.schema().to_arrow())
    print(json.dumps({"ready": True}), flush=True)
    for n in range(request["batches"]):
        above, mark = table.version(), uuid.uuid4().hex
        start = first + n * rows
        line = {"first": start, "rows": rows}
        try:
            data = batch(schema, start, rows, request.get("constants") or {})
            properties = deltalake.CommitProperties(custom_metadata={"txcoord.test.append": mark})
            deltalake.write_deltalake(table, data, mode="append", commit_properties=properties)
            line["version"] = version_of(os.path.join(path, "_delta_log"), mark, above)
        except Exception as e:  # every refusal is a line of its own, and the next batch is tried
            line["error"] = "%s: %s" % (type(e).__name__, e)
            table = deltalake.DeltaTable(uri, storage_options=options)
        print(json.dumps(line), flush=True)
        time.sleep(request.get("pause_seconds") or 0)


main()
