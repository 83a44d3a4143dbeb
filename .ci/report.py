"""Reads `go test -json` and prints what a person wants to see of it: a line per
package, the output of what failed, and every skipped test with its reason."""

import json
import sys

outputs = {}
skipped = []

for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:  # what make and the go command say themselves
        print(line, end="")
        continue
    package, test, action = event.get("Package", ""), event.get("Test", ""), event["Action"]
    key = (package, test)
    if action in ("output", "build-output"):
        key = (event.get("ImportPath", package), test)
        outputs.setdefault(key, []).append(event["Output"])
    elif action == "build-fail":
        print("".join(outputs.pop((event["ImportPath"], ""), [])), end="")
    elif action == "fail":
        if not test:  # what did not come to an end, as when the time is over
            for other in [k for k in outputs if k[0] == package and k[1]]:
                print("".join(outputs.pop(other)), end="")
        print("".join(outputs.pop(key, [])), end="", flush=True)
    elif action == "skip" and test:
        reason = [o.strip() for o in outputs.get(key, []) if not o.lstrip().startswith(("---", "==="))]
        skipped.append((package, test, " ".join(reason)))
    if action == "pass" and not test:
        print("ok  ", package, "%.1fs" % event.get("Elapsed", 0), flush=True)
    if action in ("pass", "skip", "fail"):
        outputs.pop(key, None)

for package, test, reason in skipped:
    print("skipped:", package, test, reason)
