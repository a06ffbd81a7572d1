"""A process that does with errors what amazon_kclpy does: it tells of them on stderr, and then of success."""

import json
import sys

for line in sys.stdin:
    action = json.loads(line)["action"]
    if action == "processRecords":
        print(json.dumps({"action": "checkpoint"}), flush=True)
        sys.stdin.readline()
        sys.stderr.write("Caught exception from action dispatch: out of order")
        sys.stderr.write("Traceback (most recent call last):\n")
        sys.stderr.flush()
    print(json.dumps({"action": "status", "responseFor": action}), flush=True)
