"""The code in README.md, as it stands there but for the server's address."""

import contextlib
import io
import json
import os
import re
import unittest

import txcoord
from txcoord.v1 import tables_pb2

from server import Server


class ReadmeTest(unittest.TestCase):
    def test_example(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "README.md"), encoding="utf-8") as readme:
            (code,) = re.findall(r"```python\n(.*?)```", readme.read(), re.S)
        self.assertIn('"127.0.0.1:7401"', code)
        server = Server()
        self.addCleanup(server.close)
        with txcoord.Client(server.address) as client:
            for name, columns in {"orders": ["order_id:long", "total_cents:long"], "order_items": ["order_id:long", "article:string"]}.items():
                fields = [dict(zip(("name", "type"), c.split(":")), nullable=True, metadata={}) for c in columns]
                client.tables.CreateTable(tables_pb2.CreateTableRequest(
                    name=name, uri=os.path.join(server.warehouse, name), schema_json=json.dumps({"type": "struct", "fields": fields}),
                ))
        for _ in range(2):  # the second time the key is committed
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code.replace("127.0.0.1:7401", server.address), "README.md", "exec"), {})
            self.assertIn("{'orders': 1, 'order_items': 1} 3", printed.getvalue())
            self.assertIn("total_cents: [[1200,340]]", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
