"""A processor with a large import, for `imports: shared`: it tells in the file that the environment names what it was asked, and by which
process its module was imported."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

IMPORTED_BY = os.getpid()
MODEL = bytearray(b"x") * (64 << 20)
if fails := os.environ.get("FAILS"):
    raise OSError(fails)
# What a module starts when it is imported is no process of a shard.
subprocess.run(("true",), check=True)


class Loading:
    version = 3

    def initialize(self, initialize_input):
        self.shard = initialize_input.shard_id
        facts = {
            "shard": self.shard,
            "process": os.getpid(),
            "group": os.getpgid(0),
            "imported_by": IMPORTED_BY,
            "word": os.environ.get("WORD"),
            "folder": str(Path.cwd()),
            "cpu": resource.getrlimit(resource.RLIMIT_CPU)[0],
            "memory": resource.getrlimit(resource.RLIMIT_AS)[0],
            "size": len(MODEL),
        }
        with Path(os.environ["RECORDED"]).open("a") as file:
            file.write(json.dumps(facts) + "\n")
        print(f"printed by {self.shard}")
        print(f"told by {self.shard}", file=sys.stderr)

    def process_records(self, process_records_input): ...

    def lease_lost(self, lease_lost_input): ...

    def shard_ended(self, shard_ended_input): ...

    def shutdown_requested(self, shutdown_requested_input): ...


class Spinning(Loading):
    def process_records(self, process_records_input):
        while True:
            pass


class Leaving(Loading):
    def process_records(self, process_records_input):
        sys.exit(7)
