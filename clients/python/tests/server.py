"""Real servers for the tests: the program that TXCOORD_BIN names."""

import os
import shutil
import subprocess
import tempfile


class Server:
    """A server in a folder of its own, on a port of its own choosing that it keeps."""

    def __init__(self, *flags):
        self.flags = flags
        self.folder = tempfile.mkdtemp(prefix="txcoord-python-")
        self.warehouse = os.path.join(self.folder, "lake")
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["TXCOORD_BIN"], "serve", "--warehouse", self.warehouse, "--listen", self.address, *self.flags],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )
        self.address = self.process.stdout.readline().split()[-1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
