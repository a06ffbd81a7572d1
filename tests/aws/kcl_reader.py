"""How KCL reads a lease row, written from KCL's behaviour without using code of Headrace (I24 of docs/reference/protocol.md).

An older KCL throws for the whole list when one row lacks a leaseCounter, so everything here raises.
"""

import re
from collections.abc import Mapping
from typing import Any

WORD_CHECKPOINTS = {"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"}
KCL_TYPES = {
    "leaseKey": "S",
    "leaseOwner": "S",
    "leaseCounter": "N",
    "ownerSwitchesSinceCheckpoint": "N",
    "checkpoint": "S",
    "checkpointSubSequenceNumber": "N",
    "pendingCheckpoint": "S",
    "pendingCheckpointSubSequenceNumber": "N",
    "pendingCheckpointState": "B",
    "parentShardId": "SS",
    "childShardIds": "SS",
    "startingHashKey": "S",
    "endingHashKey": "S",
    "throughputKBps": "N",
    "checkpointOwner": "S",
    "entityType": "S",
    "streamName": "S",
    "shardId": "S",
}
WHOLE_NUMBERS = {
    "leaseCounter",
    "ownerSwitchesSinceCheckpoint",
    "checkpointSubSequenceNumber",
    "pendingCheckpointSubSequenceNumber",
}
MANDATORY = {
    "leaseKey",
    "leaseCounter",
    "ownerSwitchesSinceCheckpoint",
    "checkpoint",
    "checkpointSubSequenceNumber",
}
HEADRACE_ATTRIBUTES = {
    "streamEpoch",
    "runClaim",
    "wantedBy",
    "landedCheckpoint",
    "landedSub",
    "lookedAt",
    "behindMs",
    "assignedAt",
    "failingSince",
    "failure",
}


def read_as_kcl(row: Mapping[str, Any], *, entity_type: bool = True) -> None:
    """Check that KCL would read this row as a lease, or raise an error that says what KCL wouldn't understand."""
    assert row.keys() >= MANDATORY, MANDATORY - row.keys()
    assert row.keys() <= KCL_TYPES.keys() | HEADRACE_ATTRIBUTES, (
        row.keys() - KCL_TYPES.keys() - HEADRACE_ATTRIBUTES
    )
    for name, value in row.items():
        assert len(value) == 1
        if name in KCL_TYPES:
            _typed(name, *next(iter(value.items())))
    assert (row.get("entityType") == {"S": "LEASE"}) is entity_type
    _checkpoint(row, "checkpoint", "checkpointSubSequenceNumber")
    if "pendingCheckpoint" in row or "pendingCheckpointSubSequenceNumber" in row:
        _checkpoint(row, "pendingCheckpoint", "pendingCheckpointSubSequenceNumber")
    assert ("startingHashKey" in row) == ("endingHashKey" in row)
    if "startingHashKey" in row:
        start, end = int(row["startingHashKey"]["S"]), int(row["endingHashKey"]["S"])
        assert 0 <= start < end < 2**128


def _typed(name: str, kind: str, value: Any) -> None:
    assert kind == KCL_TYPES[name], f"{name} is {kind}"
    if kind == "S":
        assert value, f"{name} is empty"
    if kind == "SS":
        assert value, f"{name} is an empty set"
        assert all(value)
    if name in WHOLE_NUMBERS:
        assert re.fullmatch(r"[0-9]+", value), f"{name} is {value}"
    elif kind == "N":
        assert re.fullmatch(r"-?[0-9]+(\.[0-9]{1,6})?", value), f"{name} is {value}"


def _checkpoint(row: Mapping[str, Any], sequence: str, sub: str) -> None:
    text = row[sequence]["S"]
    assert text in WORD_CHECKPOINTS or re.fullmatch("[0-9]+", text), text
    assert int(row[sub]["N"]) >= 0
