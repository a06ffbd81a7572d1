"""Which checkpoints an application may write, as KCL's ShardRecordProcessorCheckpointer decides it.

    the application asks for a checkpoint that is                 | answer
    --------------------------------------------------------------+-----------------------------------------------
    equal to the last checkpoint                                  | nothing to write
    after the last checkpoint, up to the last delivered record    | written
    at the last record of a shard that has ended                  | written as SHARD_END
    anywhere else                                                 | refused

A sequence number alone means the first user record of that Kinesis record (sub-sequence number 0). If a later
user record of the same Kinesis record was checkpointed already, KCL refuses the bare number, because the
checkpoint would go back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointProgress:
    """The last checkpoint and the last delivered record of one shard, as its reader remembers them between two
    checkpoints.
    """

    last: Checkpoint | None = None
    """The last checkpoint that was written; before the first write, the checkpoint in the row."""
    largest: Checkpoint | None = None
    """The last user record that was delivered to the application. A checkpoint after it is refused."""
    at_end: Checkpoint | None = None
    """The shard's last record, once the shard has been read to its end. A checkpoint at this record is written as
    SHARD_END."""


@dataclass(frozen=True, slots=True)
class Write:
    """The answer to write this checkpoint into the row. A checkpoint in one step also removes a prepared
    checkpoint from the row.
    """

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The answer to write nothing: the row has this checkpoint already, or no record was delivered yet."""


@dataclass(frozen=True, slots=True)
class OutOfBounds:
    why: str


CheckpointAnswer = Write | Unchanged | OutOfBounds


def delivered(progress: CheckpointProgress, largest: Checkpoint) -> CheckpointProgress:
    """The progress after records up to `largest` were delivered."""
    return replace(progress, largest=largest)


def shard_ended(progress: CheckpointProgress) -> CheckpointProgress:
    """The progress after KCL's shutdown task ran. KCL repeats that task until the shard's end is checkpointed."""
    # As in KCL, the second run of the task makes `at_end` SHARD_END. From then on a checkpoint at the last record's
    # sequence number no longer ends the shard; only SHARD_END, or a checkpoint without an argument, does.
    return replace(progress, at_end=progress.largest, largest=SHARD_END)


def written(progress: CheckpointProgress, write: Write) -> CheckpointProgress:
    """The progress after `write` was applied to the row."""
    return replace(progress, last=write.checkpoint)


def plan_checkpoint(
    progress: CheckpointProgress, requested: Checkpoint | None = None, *, mended: bool = False
) -> CheckpointAnswer:
    """Answers an application that asks for a checkpoint at `requested`, or, without it, at the last delivered record.

    KCL 3.5.1 has a defect at the end of a shard: it compares the asked checkpoint with the last one before it
    replaces the shard's last record by SHARD_END. An application that had checkpointed that record before can
    never end the shard by checkpointing it again. With `mended`, the comparison comes after the replacement.
    """
    if requested is None:
        if progress.largest is None:
            return Unchanged()
        # The last delivered record is never out of bounds.
        target = progress.largest
    else:
        refusal = _refusal(progress, requested)
        if refusal is not None:
            return refusal
        target = requested
    mapped = _mapped(progress, target)
    return Unchanged() if (mapped if mended else target) == progress.last else Write(mapped)


def plan_prepare(progress: CheckpointProgress, requested: Checkpoint | None = None) -> CheckpointAnswer:
    """Answers an application that prepares a checkpoint: the first of two steps. The second step is
    `plan_checkpoint` at the prepared checkpoint.

    Without `requested`, the last delivered record is prepared. Where the application also passes a state, KCL uses
    sub-sequence number 0 of that record: the caller passes `requested=Checkpoint(largest.sequence)` to do the same.
    """
    target = progress.largest if requested is None else requested
    if target is None:
        return OutOfBounds("no record was delivered yet, so no checkpoint can be prepared")
    refusal = _refusal(progress, target)
    if refusal is not None:
        return refusal
    mapped = _mapped(progress, target)
    return Unchanged() if mapped == progress.last else Write(mapped)


def _refusal(progress: CheckpointProgress, checkpoint: Checkpoint) -> OutOfBounds | None:
    if checkpoint.sub < 0:
        return OutOfBounds(f"the sub-sequence number {checkpoint.sub} is negative")
    if progress.largest is None:
        return OutOfBounds("no record was delivered yet, so nothing can be checkpointed")
    # After the shard's end `largest` is SHARD_END, which is greater than all sequence numbers, so SHARD_END
    # itself is allowed.
    if (progress.last is not None and checkpoint < progress.last) or checkpoint > progress.largest:
        return OutOfBounds(
            f"the checkpoint {checkpoint} isn't between the last checkpoint ({progress.last or 'none yet'}) "
            f"and the last delivered record ({progress.largest}); the row stays as it is"
        )
    return None


def _mapped(progress: CheckpointProgress, checkpoint: Checkpoint) -> Checkpoint:
    return SHARD_END if progress.at_end is not None and checkpoint == progress.at_end else checkpoint
