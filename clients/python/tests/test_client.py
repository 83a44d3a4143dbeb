"""The client against a real server, and tables read by delta-rs."""

import datetime
import decimal
import json
import os
import re
import shutil
import signal
import socket
import ssl
import tempfile
import threading
import time
import unittest
import unittest.mock

import grpc
import pyarrow as pa
from deltalake import DeltaTable

import txcoord
from txcoord import arrow
from txcoord.v1 import operations_pb2, snapshots_pb2, tables_pb2, transactions_pb2

from server import Server

ORDERS = {"type": "struct", "fields": [
    {"name": "id", "type": "long", "nullable": False, "metadata": {}},
    {"name": "day", "type": "date", "nullable": True, "metadata": {}},
    {"name": "total", "type": "decimal(12,2)", "nullable": True, "metadata": {}},
    {"name": "note", "type": "string", "nullable": True, "metadata": {}},
    {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
    {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}, "nullable": True, "metadata": {}},
]}
ITEMS = {"type": "struct", "fields": [
    {"name": "order_id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "amount", "type": "double", "nullable": True, "metadata": {}},
]}


def orders(*ids):
    return pa.table({
        "id": list(ids),
        "day": [datetime.date(2026, 11, 1 + i % 28) for i in ids],
        "total": [decimal.Decimal(i) / 4 for i in ids],
        "note": [None if i % 5 == 0 else "long " * 20 + str(i) for i in ids],
        "at": [datetime.datetime(2026, 11, 29, 12, 0, 0, i, tzinfo=datetime.timezone.utc) for i in ids],
        "tags": [["a", None] for _ in ids],
    })


def items(*ids):
    return pa.table({"order_id": list(ids), "amount": [i / 2 for i in ids]})


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = self.connect()
        self.define("orders", ORDERS, ["day"])
        self.define("items", ITEMS)

    def connect(self):
        client = txcoord.Client(self.server.address, retry_for=60)
        self.addCleanup(client.close)
        return client

    def define(self, name, schema, partitions=(), **properties):
        self.client.tables.CreateTable(tables_pb2.CreateTableRequest(
            name=name, uri=os.path.join(self.server.warehouse, name), schema_json=json.dumps(schema),
            partition_columns=partitions, properties=properties,
        ))

    def rows(self, name, cut=None):
        return (cut or self.client.snapshot()).delta(name).to_pyarrow_table()

    def load(self, key, *ids):
        def work(tx):
            tx.append("orders", orders(*ids))
            tx.append("items", items(*ids))

        return self.client.transact(key, work)

    def test_two_tables_together(self):
        result = self.load("load-1", 1, 2, 5, 30)
        self.assertFalse(result.already_committed)
        self.assertEqual(result.versions, {"orders": 1, "items": 1})
        cut = self.client.snapshot(["orders", "items"])
        self.assertEqual((cut.version, cut.versions), (result.snapshot, {"orders": 1, "items": 1}))
        read = self.rows("orders", cut).select(orders().column_names).sort_by("id")
        self.assertEqual(read.to_pylist(), orders(1, 2, 5, 30).to_pylist())
        self.assertEqual(sum(self.rows("items", cut).column("amount").to_pylist()), 19)
        # By their statistics engines leave out files: none with rows that are asked for.
        for day in (2, 3, 6):
            found = cut.delta("orders").to_pyarrow_table(filters=[("day", "=", datetime.date(2026, 11, day))])
            self.assertGreaterEqual(found.num_rows, 1)
        note = "long " * 20 + "2"
        self.assertEqual(cut.delta("orders").to_pyarrow_table(filters=[("note", "=", note)]).num_rows, 1)
        at = datetime.datetime(2026, 11, 29, 12, 0, 0, 30, tzinfo=datetime.timezone.utc)
        self.assertEqual(cut.delta("orders").to_pyarrow_table(filters=[("at", ">=", at)]).num_rows, 1)

    def test_a_key_is_committed_once(self):
        first = self.load("once", 1)
        again = self.load("once", 1, 2, 3)
        self.assertTrue(again.already_committed)
        self.assertEqual(again.outcome.transaction_id, first.outcome.transaction_id)
        self.assertEqual(self.rows("orders").num_rows, 1)
        self.assertTrue(self.client.outcome("once").HasField("committed"))

    def test_what_fails_leaves_nothing(self):
        def work(tx):
            tx.append("orders", orders(1))
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            self.client.transact("broken", work)
        self.assertTrue(self.client.outcome("broken").HasField("aborted"))
        self.assertEqual(self.client.snapshot().versions, {"orders": 0, "items": 0})
        self.assertFalse(self.load("broken", 7).already_committed)  # the next attempt of the key
        with self.assertRaises(txcoord.NothingStaged):
            self.client.transact("empty", lambda tx: None)

    def test_a_lost_conflict_runs_again(self):
        self.load("first", 1)
        runs = []

        def replace(tx):
            cut = self.client.snapshot()
            file = pa.table(cut.delta("items").get_add_actions()).column("path").to_pylist()
            if not runs:
                self.load("in between", 2)
            runs.append(cut.version)
            removes = [{"remove": {"path": p, "deletionTimestamp": 1, "dataChange": True}} for p in file]
            tx.stage("items", removes, txcoord.at_version(cut["items"].version, txcoord.whole_table()))

        result = self.client.transact("replace", replace)
        self.assertEqual(len(runs), 2)
        self.assertEqual(result.outcome.attempt, 2)
        self.assertEqual(self.rows("items").num_rows, 0)

        def stale(tx):
            tx.stage("items", [{"add": {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}],
                     txcoord.at_version(1, txcoord.whole_table()))

        with self.assertRaises(txcoord.TransactionFailed) as caught:
            self.client.transact("stale", stale)
        self.assertIsInstance(caught.exception.__cause__, txcoord.Conflict)
        self.assertEqual(caught.exception.runs, 2)

    def test_errors_name_what_is_wrong(self):
        with self.assertRaises(txcoord.NotFound) as caught:
            self.client.transact("k", lambda tx: tx.stage("nothing", b"{}"))
        self.assertEqual(caught.exception.reason, "TABLE_NOT_FOUND")
        with self.assertRaises(txcoord.Invalid) as caught:
            self.client.transact("l", lambda tx: tx.stage("items", b'{"add":{}}'))
        self.assertEqual(caught.exception.reason, "INVALID_ACTION")
        self.assertIsNotNone(caught.exception.field)
        for wrong, message in {
            "no column": pa.table({"id": [1], "colour": ["red"]}),
            "does not fit": pa.table({"id": ["one"]}),
            "not nullable": pa.table({"note": ["x"]}),
        }.items():
            with self.assertRaisesRegex(ValueError, wrong):
                self.client.transact("m" + wrong, lambda tx: tx.append("orders", message))
        self.define("checked", ITEMS, **{"delta.constraints.positive": "amount > 0"})
        with self.assertRaises(txcoord.UnsupportedTable):
            self.client.transact("n", lambda tx: tx.append("checked", items(1)))
        with self.assertRaisesRegex(ValueError, "plain text"):
            txcoord.Client("txcoord.example:7401", token="secret")

        with self.assertRaisesRegex(ValueError, "the key is empty"):
            self.client.transact("", lambda tx: None)
        self.client.operations.FreezeTable(operations_pb2.FreezeTableRequest(table="items", reason="a migration"))
        with self.assertRaisesRegex(txcoord.Frozen, "a migration.*tables why items") as caught:
            self.client.transact("o", lambda tx: tx.append("items", items(1)))
        self.assertEqual(caught.exception.frozen.table, "items")

    def test_no_rows(self):
        def work(tx):
            self.assertIsNone(tx.append("orders", orders()))
            tx.append("items", items(1))

        self.assertEqual(self.client.transact("k", work).versions, {"items": 1})
        with self.assertRaises(txcoord.NothingStaged):
            self.client.transact("l", lambda tx: tx.append("orders", orders()))

    def test_odd_partitions_and_values(self):
        schema = {"type": "struct", "fields": [
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
            {"name": "x", "type": "double", "nullable": True, "metadata": {}},
        ]}
        self.define("odd", schema, ["p"])
        values = ["\u00e9" * 100, "a b", "50%", "a/b", "\u00fc\u4e2d", "a=b", "a:b", "%20", "..", "'", None, "+", "#?"]
        data = pa.table({"p": pa.array(values, pa.string()), "x": [0.5, float("nan"), float("inf"), -0.0, 1e300, None, 1, 2, 3, 4, 5, 6, 7]})
        self.client.transact("k", lambda tx: tx.append("odd", data))
        read = dict(zip(*(self.rows("odd").column(c).to_pylist() for c in ("p", "x"))))
        self.assertEqual(set(read), set(values))
        self.assertEqual(repr([read[v] for v in values if v != "a b"]), repr([x for v, x in zip(values, data.column("x").to_pylist()) if v != "a b"]))
        self.assertEqual(repr(read["a b"]), "nan")

    def table(self, name, columns, partitions=(), nullable=True):
        fields = [{"name": n, "type": t, "nullable": nullable, "metadata": {}} for n, t in columns.items()]
        self.define(name, {"type": "struct", "fields": fields}, partitions)

    def put(self, name, **columns):
        return self.client.transact(txcoord.new_key(), lambda tx: tx.append(name, pa.table(columns)))

    def test_bounds_hold(self):
        """What a file's statistics say never hides a row that is in it."""
        self.table("d", {"i": "decimal(38,0)", "c": "decimal(20,2)", "s": "string", "t": "timestamp"})
        cases = {
            "i": [decimal.Decimal(2**100), decimal.Decimal(2**60), decimal.Decimal(-(2**60))],
            "c": [decimal.Decimal("115292150460684697.25"), decimal.Decimal("0.10"), decimal.Decimal("-12.34")],
            "s": ["x" * 32 + "\U0010ffff\U0010ffff", "x" * 32 + "y", "\u00fc" * 40],
            "t": [datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, datetime.timezone.utc),
                  datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc),
                  datetime.datetime(2026, 1, 1, 0, 0, 0, 1, datetime.timezone.utc)],
        }
        types = {"i": pa.decimal128(38, 0), "c": pa.decimal128(20, 2), "s": pa.string(), "t": pa.timestamp("us", tz="UTC")}
        for column, values in cases.items():
            for value in values:
                self.put("d", **{column: pa.array([value], types[column])})
                adds = pa.table(self.client.snapshot().delta("d").get_add_actions(flatten=True)).to_pylist()
                for add in adds:
                    for side, wrong in (("min", lambda bound, v: bound > v), ("max", lambda bound, v: bound < v)):
                        bound = add.get(f"{side}.{column}")
                        if bound is not None and add.get(f"null_count.{column}") == 0:
                            stored = self.values_of("d", add["path"], column)
                            self.assertFalse(any(wrong(bound, v) for v in stored), (column, side, bound, stored))

    def values_of(self, name, path, column):
        import urllib.parse

        import pyarrow.parquet as pq

        return pq.read_table(os.path.join(self.server.warehouse, name, urllib.parse.unquote(path))).column(column).to_pylist()

    def test_nothing_is_lost_in_a_cast(self):
        nested = {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": True, "metadata": {}}]}
        self.table("n", {"s": nested, "l": {"type": "array", "elementType": nested, "containsNull": True},
                         "f": "float", "day": "date", "i": "long", "t": "string", "at": "timestamp"})
        refused = {
            "s.c": {"s": [{"a": 1, "c": "LOST"}]},
            "l.element.other": {"l": [[{"other": 5}]]},
            "f does not fit": {"f": [1e300]},
            "day is of type": {"day": [datetime.datetime(2026, 1, 1, 13)]},
            "i is of type": {"i": ["007"]},
            "i is of type double": {"i": [1.0]},
            "t is of type": {"t": [5]},
            "give its times a zone": {"at": [datetime.datetime(2026, 1, 1, 13)]},
        }
        for words, columns in refused.items():
            with self.assertRaisesRegex(ValueError, words):
                self.put("n", **columns)
        self.put("n", s=[{"a": 1}], l=[[{"a": 2}, None]], f=[0.1], i=pa.array([7], pa.int8()), t=pa.array(["x"]).dictionary_encode())
        row = self.rows("n").to_pylist()[0]
        self.assertEqual((row["s"], row["l"], row["i"], row["t"]), ({"a": 1}, [{"a": 2}, None], 7, "x"))
        self.table("p", {"p": "string", "x": "long"}, ["p"], nullable=False)
        with self.assertRaisesRegex(ValueError, "p is not nullable"):
            self.put("p", p=[""], x=[1])

    def test_odd_places(self):
        for name, folder in {"blank": "a b", "letters": "t\u00f6", "escape": "p%20q"}.items():
            self.client.tables.CreateTable(tables_pb2.CreateTableRequest(
                name=name, uri=os.path.join(self.server.warehouse, folder), schema_json=json.dumps(ITEMS)))
            self.client.transact(name, lambda tx: tx.append(name, items(1, 2)))
            files = [f for f in os.listdir(os.path.join(self.server.warehouse, folder)) if f.endswith(".parquet")]
            self.assertEqual(len(files), 1)
            if "%" not in folder:  # delta-rs 1.6 does not find its own tables in such folders
                self.assertEqual(self.rows(name).num_rows, 2)

    def test_azure(self):
        abfss, az = "abfss://c@a.dfs.core.windows.net/t/p%2520q", "az://c/t/p%2520q"
        self.assertEqual([arrow.path_of(abfss), arrow.path_of(az)], ["c/t/p%20q"] * 2)
        with unittest.mock.patch.dict(os.environ, {"AZURE_STORAGE_ACCOUNT": "a"}):
            for uri in (abfss, az):
                filesystem, path = arrow._open(uri)
                self.assertEqual((filesystem.type_name, path), ("abfs", "c/t/p%20q"))
        with unittest.mock.patch.dict(os.environ, {"AZURE_STORAGE_ACCOUNT": ""}):
            with self.assertRaisesRegex(ValueError, "az://c/t.*set AZURE_STORAGE_ACCOUNT, or give filesystem"):
                arrow._open(az)

    def test_which_snapshot(self):
        self.client.transact("one", lambda tx: tx.append("items", items(1)))
        cut = self.client.snapshot()
        self.client.snapshots.TagSnapshot(snapshots_pb2.TagSnapshotRequest(tag="eod", snapshot_version=cut.version))
        self.client.transact("two", lambda tx: tx.append("items", items(2)))
        for chosen in ({"version": cut.version}, {"tag": "eod"}, {"timestamp": cut.timestamp}):
            self.assertEqual(self.client.snapshot(**chosen).versions, cut.versions, chosen)
        abroad = cut.timestamp.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
        self.assertEqual(self.client.snapshot(timestamp=abroad).version, cut.version)
        with self.assertRaisesRegex(ValueError, "version and tag are given"):
            self.client.snapshot(version=1, tag="eod")
        with self.assertRaisesRegex(ValueError, "has no time zone"):  # and was taken for UTC
            self.client.snapshot(timestamp=datetime.datetime.now())

    def test_tls_on_one_side(self):
        trusting = grpc.ssl_channel_credentials()
        with self.assertRaisesRegex(txcoord.Unauthenticated, "does not speak TLS"):
            txcoord.Client(self.server.address, credentials=trusting).snapshot()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # without a certificate: it answers with alerts
            threading.Thread(target=self.refuses, args=(listener, context), daemon=True).start()
            with self.assertRaisesRegex(txcoord.Unauthenticated, "the server speaks TLS"):
                txcoord.Client("127.0.0.1:%d" % listener.getsockname()[1]).snapshot()

    @staticmethod
    def refuses(listener, context):
        while True:
            try:
                context.wrap_socket(listener.accept()[0], server_side=True)
            except ssl.SSLError:
                pass
            except OSError:
                return

    def test_replicas(self):
        """One address at which nobody listens, one whose server is paused, and one that serves."""
        with socket.create_server(("127.0.0.1", 0)) as gone:
            nobody = "127.0.0.1:%d" % gone.getsockname()[1]
        paused = Server()
        self.addCleanup(paused.close)
        paused.process.send_signal(signal.SIGSTOP)
        with unittest.mock.patch("txcoord.client._TRY_FOR", 0.3):
            with txcoord.Client(",".join([nobody, paused.address, self.server.address]), retry_for=60) as client:
                for i in range(4):
                    client.transact(f"r{i}", lambda tx: tx.append("items", items(i)))
                lines = b"".join(json.dumps({"txn": {"appId": f"a{i}", "version": 1}}).encode() + b"\n" for i in range(40_000))
                client.transact("streamed", lambda tx: tx.stage("items", lines))
        self.assertEqual(sorted(self.rows("items").column("order_id").to_pylist()), [0, 1, 2, 3])

    def test_large_parts_are_streamed(self):
        lines = b"".join(
            json.dumps({"add": {"path": f"f{i}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}).encode() + b"\n"
            for i in range(20_000)
        )
        self.assertGreater(len(lines), 2 << 20)
        parts = []
        self.client.transact("large", lambda tx: parts.append(tx.stage("items", lines)))
        self.assertEqual(parts[0].bytes, len(lines))
        self.assertEqual(len(DeltaTable(os.path.join(self.server.warehouse, "items")).file_uris()), 20_000)

    def test_watch(self):
        seen, start = [], self.client.snapshot().version
        stream = self.connect().watch(start)
        for i in range(3):
            self.load(f"w{i}", i + 1)
            seen.append(next(stream))
            if i == 1:
                self.server.kill()
                self.server.start()
        self.assertEqual([c.version for c in seen], [start + 1, start + 2, start + 3])
        self.assertEqual([[t.key for t in c.transactions] for c in seen], [["w0"], ["w1"], ["w2"]])

    def test_new_tables_and_new_columns(self):
        def work(tx):
            tx.create("more", transactions_pb2.NewTable(uri=os.path.join(self.server.warehouse, "more"), schema_json=json.dumps(ITEMS)))
            tx.alter("items", transactions_pb2.TableAlteration(add_columns=[transactions_pb2.NewColumn(name="vat", type="DOUBLE")]))

        self.client.transact("ddl", work)
        self.assertEqual(self.client.snapshot().versions, {"orders": 0, "items": 1, "more": 0})
        self.client.transact("after", lambda tx: tx.append("items", pa.table({"order_id": [1], "vat": [0.2]})))
        self.assertEqual(self.rows("items").to_pylist(), [{"order_id": 1, "amount": None, "vat": 0.2}])

    def test_new_tables_with_rows(self):
        place = os.path.join(self.server.warehouse, "a new")

        def work(tx):
            new = transactions_pb2.NewTable(uri=place, schema_json=json.dumps(ORDERS), partition_columns=["day"])
            tx.create("new", new, rows=orders(1, 2, 3))
            tx.append("items", items(1, 2, 3))

        result = self.client.transact("with-rows", work)
        self.assertEqual(result.versions, {"new": 0, "items": 1})
        cut = self.client.snapshot()
        self.assertEqual(sorted(self.rows("new", cut)["id"].to_pylist()), [1, 2, 3])
        self.assertEqual(self.rows("items", cut).num_rows, 3)
        self.client.transact("more-rows", lambda tx: tx.append("new", orders(4)))
        self.assertEqual(self.rows("new").num_rows, 4)

        def twice(tx):
            tx.create("again", transactions_pb2.NewTable(uri=place + "3", schema_json=json.dumps(ITEMS)))
            tx.append("again", items(1))

        with self.assertRaisesRegex(ValueError, "again begins in this transaction: give its rows to create"):
            self.client.transact("twice", twice)
        for words, uri, schema, properties, actions in (
            ("is no location", "beside", ITEMS, {}, b""),
            ("actions and rows are given", place + "2", ITEMS, {}, b"{}"),
            ("rows have to be checked", place + "2", ITEMS, {"delta.constraints.c": "amount > 0"}, b""),
            ("CURRENT_DEFAULT", place + "2", {"type": "struct", "fields": [{**ITEMS["fields"][0], "metadata": {"CURRENT_DEFAULT": "7"}}]}, {}, b""),
        ):
            table = transactions_pb2.NewTable(uri=uri, schema_json=json.dumps(schema), properties=properties)
            with self.assertRaisesRegex(ValueError, words):
                self.client.transact(words, lambda tx: tx.create("no", table, actions, rows=items(1)))
        self.assertFalse(os.path.exists(place + "2"))

    def test_a_refused_client_says_that_it_has_no_token(self):
        access = os.path.join(self.server.folder, "access.yaml")
        with open(access, "w", encoding="utf-8") as file:
            file.write("roles: {}\n")
        guarded = Server("--access", access)
        self.addCleanup(guarded.close)
        for token, kind, said in ((None, txcoord.Denied, True), ("wrong", txcoord.Unauthenticated, False)):
            client = txcoord.Client(guarded.address, token=token)
            self.addCleanup(client.close)
            with self.assertRaises(kind) as raised:
                client.snapshot()
            self.assertEqual("this client shows no token: Client(..., token=...)" in str(raised.exception), said, raised.exception)

    def test_who_waits_is_told_what_for(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            client = txcoord.Client("127.0.0.1:%d" % nobody.getsockname()[1], retry_for=5)
            self.addCleanup(client.close)
            quickly = unittest.mock.patch.object(txcoord.client, "_TELL_AFTER", 0.5)
            with quickly, self.assertLogs("txcoord", "WARNING") as log, self.assertRaises(txcoord.Unavailable):
                client.snapshot()
        self.assertEqual(len(log.output), 1, log.output)
        self.assertRegex(log.output[0], r"GetSnapshot is repeated, for [0-9] s more at most \(retry_for\): .*127\.0\.0\.1")

    def test_addresses(self):
        for target, wrong in (("localhost", "'localhost'"), ("", "''"), ("a:1,", "''"), ("a:1,b", "'b'"), ("http://a:1", "'http://a:1'"), ("[::1]", "'[::1]'"), ("a:x", "'a:x'")):
            with self.assertRaisesRegex(ValueError, f"{re.escape(wrong)} is no address of a server: give host:port"):
                txcoord.Client(target)
        for target in ("a:1,b:2", "[::1]:7401", "unix:/run/s", "dns:///a:1", "dns:a", "ipv4:127.0.0.1:1"):
            txcoord.Client(target).close()

    def test_an_empty_token_is_not_none(self):
        for token in ("", " \n", lambda: ""):
            client = txcoord.Client(self.server.address, token=token)
            self.addCleanup(client.close)
            with self.assertRaisesRegex(ValueError, "the token is empty"):
                client.snapshot()

    def test_a_server_that_may_not_reach_a_table_is_not_asked_for_long(self):
        elsewhere = tempfile.mkdtemp(prefix="txcoord-python-")
        self.addCleanup(shutil.rmtree, elsewhere, ignore_errors=True)
        server = Server("--allow", elsewhere)
        self.addCleanup(server.close)
        client = txcoord.Client(server.address)
        self.addCleanup(client.close)
        client.tables.CreateTable(tables_pb2.CreateTableRequest(name="far", uri=elsewhere + "/far", schema_json=json.dumps(ITEMS)))
        server.kill()
        server.flags = ()
        server.start()
        began = time.monotonic()
        with self.assertRaises(txcoord.Unavailable) as raised:
            client.tables.DescribeTable(tables_pb2.DescribeTableRequest(table="far"))
        self.assertTrue(raised.exception.out_of_reach, raised.exception)
        self.assertLess(time.monotonic() - began, 30)  # of retry_for, which is two minutes

    def test_kills(self):
        """The server is killed again and again while several threads load: every key is in both
        tables, once."""
        stop, failed = threading.Event(), []

        def loads(worker):
            try:
                for n in range(12):
                    number = worker * 100 + n + 1
                    self.load(f"load {number}", number)
            except BaseException as error:
                failed.append(error)

        def kills():
            while not stop.wait(0.7):
                self.server.kill()
                self.server.start()

        workers = [threading.Thread(target=loads, args=(w,)) for w in range(4)]
        killer = threading.Thread(target=kills)
        for thread in [*workers, killer]:
            thread.start()
        for thread in workers:
            thread.join()
        stop.set()
        killer.join()
        self.assertEqual(failed, [])
        want = sorted(w * 100 + n + 1 for w in range(4) for n in range(12))
        cut = self.client.snapshot()
        self.assertEqual(sorted(self.rows("orders", cut).column("id").to_pylist()), want)
        self.assertEqual(sorted(self.rows("items", cut).column("order_id").to_pylist()), want)


if __name__ == "__main__":
    unittest.main()
