"""A delta-rs that carries out one operation on a table per line of input.

Each operation opens the table anew. Each answer is a line: one row with what delta-rs says, or what the exception says.
"""

import json
import os
import sys

# Answers go where no library writes.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import deltalake  # noqa: E402
import pyarrow as pa  # noqa: E402


def rows(request):
    """Rows of the three columns that all tables of these tests have."""
    first, n = request["first"], request["rows"]
    return pa.table(
        {
            "id": pa.array(range(first, first + n), pa.int64()),
            "amount": pa.array([request.get("amount", 0)] * n, pa.int64()),
            "note": pa.array(["delta-rs %d" % i for i in range(first, first + n)], pa.string()),
        }
    )


def marked(request):
    return {"commit_properties": deltalake.CommitProperties(custom_metadata={"mark": request.get("mark", "")})}


def append(table, request):
    # Columns that came later are null.
    deltalake.write_deltalake(table, rows(request), mode="append", schema_mode="merge", **marked(request))


def delete(table, request):
    return table.delete(request["predicate"], **marked(request))


def merge(table, request):
    """Rows that are there by id and note get the amount, others come in."""
    merger = table.merge(rows(request), "t.id = s.id AND t.note = s.note", source_alias="s", target_alias="t", **marked(request))
    return merger.when_matched_update_all().when_not_matched_insert_all().execute()


def compact(table, request):
    return table.optimize.compact(**marked(request))


def z_order(table, request):
    return table.optimize.z_order(request["columns"], **marked(request))


def vacuum(table, request):
    hours, full = request.get("hours"), request.get("full", False)
    return {"deleted": table.vacuum(hours, dry_run=False, enforce_retention_duration=hours is None, full=full, **marked(request))}


def create_checkpoint(table, request):
    table.create_checkpoint()


def cleanup_metadata(table, request):
    table.cleanup_metadata()


def alter(table, request):
    table.alter.set_table_properties(request["properties"], raise_if_not_exists=False, **marked(request))


def add_column(table, request):
    field = deltalake.schema.Field(request["column"], deltalake.schema.PrimitiveType("string"))
    table.alter.add_columns(field, **marked(request))


def restore(table, request):
    return table.restore(request["version"], **marked(request))


def version(table, request):
    return {"version": table.version()}


def count(table, request):
    engine = deltalake.QueryBuilder().register("t", table)
    query = "SELECT count(*) AS rows, coalesce(sum(amount), 0) AS amount FROM t WHERE " + request["predicate"]
    return pa.table(engine.execute(query).read_all()).to_pylist()[0]


OPERATIONS = [append, delete, merge, compact, z_order, vacuum, create_checkpoint, cleanup_metadata, alter, add_column, restore, version, count]


def main():
    operations = {o.__name__: o for o in OPERATIONS}
    sys.stdin.readline()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            table = deltalake.DeltaTable(request["path"])
            result = operations[request["operation"]](table, request)
            answer = {"rows": [result or {}]}
        except Exception as e:  # every refusal is an answer
            answer = {"kind": type(e).__name__, "text": str(e)[:3000]}
        print(json.dumps(answer, default=str), file=answers, flush=True)


main()
