"""Reads tables with DuckDB and its Delta extension: how many rows, and the sums of columns."""

import os

import duckdb
import duckdb_extension_delta

import common


def connect():
    # The extension comes from a package of its own, of DuckDB's version, and is
    # loaded by path: nothing is downloaded.
    con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    root = os.path.dirname(duckdb_extension_delta.__file__)
    extension = os.path.join(root, "extensions", "v" + duckdb.__version__, "delta.duckdb_extension")
    con.execute("LOAD '" + extension.replace("'", "''") + "'")
    return con


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def main():
    con = connect()
    for query, version in common.queries():
        columns = query.get("sums") or []
        # The rows are counted by the engine; the values are added up here, since
        # sum() of doubles depends on the order in which threads see them.
        scan = "delta_scan(?)" if version is None else "delta_scan(?, version => ?)"
        arguments = [query["path"]] if version is None else [query["path"], version]
        count = con.execute("SELECT count(*) FROM " + scan, arguments).fetchone()[0]
        sums = {}
        if columns:
            rows = con.execute("SELECT " + ", ".join(map(quoted, columns)) + " FROM " + scan, arguments).fetchall()
            sums = {c: common.total([row[i] for row in rows]) for i, c in enumerate(columns)}
        common.answer(query, version, count, sums)


main()
