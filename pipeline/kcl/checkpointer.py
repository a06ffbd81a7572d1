"""What an application may checkpoint, as KCL's ShardRecordProcessorCheckpointer decides it.

    last checkpoint <= asked <= largest delivered     -> written; the end's last record is written as SHARD_END
    equal to the last checkpoint                      -> nothing to write
    anything else                                     -> refused

A bare sequence number means user record 0 in it: on an aggregated record it may be refused as going backwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.core.checkpoint import SHARD_END, Checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointProgress:
    """What a consumer remembers of one shard."""

    last: Checkpoint | None = None
    """The last checkpoint written, at first the row's."""
    largest: Checkpoint | None = None
    """The last user record delivered: nothing beyond it may be checkpointed."""
    at_end: Checkpoint | None = None
    """The last record of the shard: checkpointing it ends the shard."""


@dataclass(frozen=True, slots=True)
class Write:
    """Put this into the row; a plain checkpoint also clears the pending one there."""

    at: Checkpoint


@dataclass(frozen=True, slots=True)
class Unchanged:
    """It is what was written last; also before anything was delivered."""


@dataclass(frozen=True, slots=True)
class OutOfBounds:
    why: str


Asked = Write | Unchanged | OutOfBounds


def delivered(progress: CheckpointProgress, largest: Checkpoint) -> CheckpointProgress:
    return replace(progress, largest=largest)


def shard_ended(progress: CheckpointProgress) -> CheckpointProgress:
    """Each try of the shutdown task. From the second on, what is remembered as the last record is SHARD_END."""
    return replace(progress, at_end=progress.largest, largest=SHARD_END)


def written(progress: CheckpointProgress, write: Write) -> CheckpointProgress:
    return replace(progress, last=write.at)


def plan_checkpoint(
    progress: CheckpointProgress, at: Checkpoint | None = None, *, mended: bool = False
) -> Asked:
    """Without `at`: everything delivered.

    KCL 3.5.1 compares with the last checkpoint before it maps the end's record to SHARD_END: an application that had
    checkpointed that record already can't end the shard by it, ever. `mended` compares after the mapping.
    """
    if at is None:
        if progress.largest is None:
            return Unchanged()
        asked = progress.largest
    else:
        refusal = _refusal(progress, at)
        if refusal is not None:
            return refusal
        asked = at
    mapped = _mapped(progress, asked)
    return Unchanged() if (mapped if mended else asked) == progress.last else Write(mapped)


def plan_prepare(progress: CheckpointProgress, at: Checkpoint | None = None) -> Asked:
    """The first half of a checkpoint in two steps; the second half is `plan_checkpoint` of what was written.

    Without `at`: everything delivered. KCL drops the user record's number there if application state goes with it:
    that is `at=Checkpoint(largest.sequence)`.
    """
    asked = progress.largest if at is None else at
    if asked is None:
        return OutOfBounds("nothing was delivered yet, so there is nothing to prepare a checkpoint at")
    refusal = _refusal(progress, asked)
    if refusal is not None:
        return refusal
    mapped = _mapped(progress, asked)
    return Unchanged() if mapped == progress.last else Write(mapped)


def _refusal(progress: CheckpointProgress, at: Checkpoint) -> OutOfBounds | None:
    if at.sub < 0:
        return OutOfBounds(f"{at.sub} is no number of a user record")
    if progress.largest is None:
        return OutOfBounds("nothing was delivered yet, so nothing can be checkpointed")
    if (progress.last is not None and at < progress.last) or at > progress.largest:
        return OutOfBounds(
            f"{at} lies outside of {progress.last or 'the beginning'} .. {progress.largest}, what was "
            "checkpointed last and what was delivered; the row stays as it is"
        )
    return None


def _mapped(progress: CheckpointProgress, at: Checkpoint) -> Checkpoint:
    return SHARD_END if progress.at_end is not None and at == progress.at_end else at
