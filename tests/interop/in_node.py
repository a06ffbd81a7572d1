"""A processor that was written for KCL in Node.js (npm's aws-kcl) runs unchanged as a processor of Headrace in `mode: landed`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.interop.build import NotAtHand
from tests.interop.scene import Stage
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A, B

_AWS_KCL = "2.3.2"
_CODE = Path(__file__).parent / "node" / "counting.js"
_MODULES = Path(__file__).parents[2] / "artifacts" / "interop" / "node"
_EXPECTED = [
    "initialize shardId-000000000000 TRIM_HORIZON",
    *("record 1 a", "record 2 b", "record 3 c", "checkpoint ok", "shutdownRequested", "leaseLost"),
    "initialize shardId-000000000001 TRIM_HORIZON",
    *("record 10 other", "checkpoint ok", "shutdownRequested", "leaseLost"),
]


def fetch() -> Path:
    """The folder of aws-kcl."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise NotAtHand(f"{tool} is not on the PATH")
    if not (_MODULES / "node_modules" / "aws-kcl").exists():
        _MODULES.mkdir(parents=True, exist_ok=True)
        # Its scripts would load the Java daemon, whose place Headrace takes.
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", f"aws-kcl@{_AWS_KCL}"]
        subprocess.run(command, cwd=_MODULES, check=True, timeout=600)
    return _MODULES / "node_modules"


def processor_in_node(stage: Stage) -> int:
    """Each call of KCL's interface for Node.js, in order, with each record of two shards once."""
    folder = stage.folder / "node"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ |= {"NOTED": str(folder / "noted"), "NODE_PATH": str(fetch())}
    bed = ProcessorBed(folder, callable=None, command=f"node {_CODE}", schema="")
    bed.land(A, {number: word.encode() for number, word in enumerate("abc", start=1)})
    bed.land(B, {10: b"other"})
    bed.catch_up()
    noted = (folder / "noted").read_text().splitlines()
    print(f"processor-node: {'ok' if noted == _EXPECTED else f'FAILED: {noted}'}", flush=True)
    return int(noted != _EXPECTED)


IN_NODE: dict[str, Callable[[Stage], int]] = {"processor-node": processor_in_node}
