"""Transactions over several Delta Lake tables, through a txcoord server.

    import txcoord

    with txcoord.Client("127.0.0.1:7401") as client:

        def work(tx):
            tx.append("orders", orders)          # an Arrow table: written as Parquet, then staged
            tx.append("order_items", items)

        client.transact("orders-2026-11-29", work)   # both tables or none, once per key

        cut = client.snapshot(["orders", "order_items"])
        cut.delta("orders").to_pyarrow_table()        # at the version that belongs to the other's
"""

from txcoord.arrow import UnsupportedTable
from txcoord.client import Client
from txcoord.errors import (
    Aborted,
    AlreadyExists,
    Conflict,
    DataLoss,
    Denied,
    Exhausted,
    Expired,
    Frozen,
    Invalid,
    NotFound,
    NothingStaged,
    OutOfRange,
    Precondition,
    TransactionFailed,
    TxcoordError,
    Unauthenticated,
    Unavailable,
)
from txcoord.read import at_snapshot, at_version, blind, files, partitions, whole_table
from txcoord.snapshots import Snapshot
from txcoord.transact import Result, Tx, new_key, transact

__all__ = [
    "Aborted", "AlreadyExists", "Client", "Conflict", "DataLoss", "Denied", "Exhausted", "Expired", "Frozen", "Invalid", "NotFound",
    "NothingStaged", "OutOfRange", "Precondition", "Result", "Snapshot", "TransactionFailed", "Tx", "TxcoordError", "Unauthenticated",
    "Unavailable", "UnsupportedTable", "at_snapshot", "at_version", "blind", "files", "new_key", "partitions", "transact", "whole_table",
]
