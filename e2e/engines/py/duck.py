"""A DuckDB that carries out one SQL statement per line of input, on Delta tables that it attaches by their folder."""

import json
import os
import sys

# DuckDB writes the progress of slow statements to standard output; answers go where nobody else writes.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import duckdb  # noqa: E402
import duckdb_extension_delta  # noqa: E402


def connect():
    con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    root = os.path.dirname(duckdb_extension_delta.__file__)
    extension = os.path.join(root, "extensions", "v" + duckdb.__version__, "delta.duckdb_extension")
    con.execute("LOAD '" + extension.replace("'", "''") + "'")
    return con


def carry_out(con, request):
    """The table is `t` while the statement runs: attached anew, so that its newest version is seen."""
    con.execute("ATTACH '" + request["path"].replace("'", "''") + "' AS t (TYPE delta)")
    try:
        cursor = con.execute(request["sql"])
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row)) for row in cursor.fetchall()]
    finally:
        con.execute("DETACH t")


def main():
    con = connect()
    sys.stdin.readline()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = {"rows": carry_out(con, json.loads(line))}
        except Exception as e:  # every refusal is an answer
            answer = {"kind": type(e).__name__, "text": str(e)[:3000]}
        print(json.dumps(answer, default=str), file=answers, flush=True)


main()
