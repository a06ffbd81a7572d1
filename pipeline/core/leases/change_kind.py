"""The kinds of writes on a lease row, and what must still be true for each.

kind          | made by                  | must still be true (me: this worker; mine: this run's or command's)
--------------+--------------------------+-------------------------------------------------------------------------
create        | shard sync, a run        | there is no such row
replace       | shard sync               | streamEpoch as observed
claim         | a run, before a wave     | owner = me, no handover, runClaim, wantedBy and streamEpoch as read
beat          | a run or a worker        | holder = me, runClaim as read; of `headrace beat` also leaseCounter
repair        | a run, before a wave     | holder as read, runClaim = mine, checkpoint as read
checkpoint    | a run, after a commit    | holder = me, runClaim = mine, checkpoint as read
prepare       | nothing yet              | as checkpoint
release       | a run, after a wave      | runClaim = mine
checkpoint and release | a run that kept the row | as checkpoint, and as release
want          | a waiting run            | wantedBy as read
unwant        | a waiting run            | wantedBy = mine
assign        | the leader               | owner, checkpointOwner, leaseCounter and streamEpoch as observed
move          | the leader               | as assign
initiate      | the leader               | owner as observed, no handover, streamEpoch as observed
redirect      | the leader               | owner and checkpointOwner as observed
call off      | the leader               | owner, checkpointOwner and leaseCounter as observed
complete      | holder, next owner, leader | owner, checkpointOwner and runClaim as read
give up       | a stopping worker        | holder = me, runClaim as read
note children | a run at a shard's end   | holder, runClaim and streamEpoch as read
note failure  | a worker's tick, a run   | holder = me, runClaim and streamEpoch as read, no failure noted yet
hold          | a person's command       | owner, no handover, runClaim, wantedBy and streamEpoch as read
reposition    | a person's command       | runClaim = mine, checkpoint as read
retire        | the leader               | streamEpoch as observed
delete        | the leader               | ended: checkpoint, leaseCounter; else owners, checkpoint, runClaim, streamEpoch
stamp         | `headrace adopt`         | no streamEpoch yet
give back     | `headrace give-back`     | checkpoint, leaseCounter and runClaim as read
take, steal, evict, renew, note range | policies of shared tables | as the other programs in these tables do it
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ChangeKind(StrEnum):
    """The purpose of a write on a lease row. Each line of the table above has a kind."""

    CREATE = "create"
    REPLACE = "replace"
    CLAIM = "claim"
    BEAT = "beat"
    REPAIR = "repair"
    CHECKPOINT = "checkpoint"
    PREPARE = "prepare"
    RELEASE = "release"
    CHECKPOINT_AND_RELEASE = "checkpoint and release"
    WANT = "want"
    UNWANT = "unwant"
    ASSIGN = "assign"
    MOVE = "move"
    INITIATE = "initiate"
    REDIRECT = "redirect"
    CALL_OFF = "call off"
    COMPLETE = "complete"
    GIVE_UP = "give up"
    NOTE_CHILDREN = "note children"
    NOTE_FAILURE = "note failure"
    HOLD = "hold"
    REPOSITION = "reposition"
    RETIRE = "retire"
    DELETE = "delete"
    STAMP = "stamp"
    GIVE_BACK = "give back"
    TAKE = "take"
    """Of a lease whose counter has stood still, or that has no owner."""
    STEAL = "steal"
    """Of a lease that another worker renews, because that one holds the most."""
    EVICT = "evict"
    RENEW = "renew"
    NOTE_RANGE = "note range"


MOVES: Final = frozenset({ChangeKind.INITIATE, ChangeKind.MOVE})
"""A lease goes from one living worker to another."""
MAKES: Final = frozenset({ChangeKind.CREATE, ChangeKind.REPLACE})
"""The kinds of changes that write a whole new row."""
DELETES: Final = frozenset({ChangeKind.RETIRE, ChangeKind.DELETE})
"""The kinds of changes that delete the row."""
