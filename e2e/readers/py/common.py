"""What the readers share: requests in, answers out, sums that do not depend on the order of rows."""

import decimal
import json
import math
import os
import sys

# Readers write to standard output when they like, DuckDB the progress of slow queries;
# answers go where nobody else writes.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def queries():
    """The queries on stdin, as (query, version) pairs; version None is the newest."""
    for query in json.load(sys.stdin):
        for version in query.get("versions") or []:
            yield query, version
        if query.get("latest"):
            yield query, None


def answer(query, version, count, sums):
    """One line of the answer. Sums are strings, so that 64-bit integers and decimals stay exact."""
    line = {"name": query["name"], "version": -1 if version is None else version, "count": count, "sums": sums}
    print(json.dumps(line), file=answers, flush=True)


def total(values):
    """The sum of a column's values without nulls, exact for integers and decimals, correctly rounded for floats."""
    values = [v for v in values if v is not None]
    if any(isinstance(v, float) for v in values):
        return repr(math.fsum(values))
    if any(isinstance(v, decimal.Decimal) for v in values):
        with decimal.localcontext() as context:
            context.prec = 76
            return str(sum(values, decimal.Decimal(0)))
    return str(sum(values))
