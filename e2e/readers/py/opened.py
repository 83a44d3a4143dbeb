"""Opens a table with delta-rs, lists its files, and says how long that took. Takes the table's folder on stdin."""

import json
import sys
import time

import deltalake


def memory(line):
    """A line of what Linux says of this process' memory, in bytes; 0 elsewhere."""
    try:
        with open("/proc/self/status") as status:
            for l in status:
                if l.startswith(line):
                    return int(l.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main():
    path = json.load(sys.stdin)["path"]
    idle = memory("VmRSS:")
    began = time.perf_counter_ns()
    table = deltalake.DeltaTable(path)
    took = time.perf_counter_ns() - began
    files = len(table.file_uris())
    listed = time.perf_counter_ns() - began
    peak = memory("VmHWM:")
    print(json.dumps({
        "opened": took, "listed": listed, "version": table.version(), "files": files, "idle": idle, "peak": peak,
    }))


main()
