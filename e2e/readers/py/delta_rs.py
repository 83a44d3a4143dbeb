"""Reads tables with delta-rs and its own query engine: how many rows, and the sums of columns."""

import deltalake
import pyarrow as pa

import common


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def rows_of(table, what):
    # Not to_pyarrow_table: Arrow's scan threads call back into delta-rs and now
    # and then abort the process when the interpreter ends.
    builder = deltalake.QueryBuilder().register("t", table)
    return pa.table(builder.execute("SELECT " + what + " FROM t").read_all())


for query, version in common.queries():
    columns = query.get("sums") or []
    table = deltalake.DeltaTable(query["path"], version=version, storage_options=query.get("storage_options"))
    count = rows_of(table, "count(*) AS n").column(0).to_pylist()[0]
    sums = {}
    if columns:
        rows = rows_of(table, ", ".join(map(quoted, columns)))
        sums = {c: common.total(rows.column(i).to_pylist()) for i, c in enumerate(columns)}
    common.answer(query, version, count, sums)
