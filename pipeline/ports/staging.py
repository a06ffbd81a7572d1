"""The port of staging: Spark reads shards and writes files for a commit. And the values that Spark's workers need
for that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
    from headrace.pipeline.core.shards.stream import ShardKey
    from headrace.pipeline.task_identity import TaskIdentity


@dataclass(frozen=True, slots=True)
class StagingSpec:
    """What a Spark worker has to know to write files that a commit can name. It can be pickled."""

    location: str
    """Folder of the data files, as a URI or a local path."""
    field_ids: tuple[tuple[str, int], ...]
    """Column name -> field id in the table's schema."""
    # Iceberg finds a file's columns by these ids, so staged and landed files stay readable after a column was renamed.
    options: tuple[tuple[str, str], ...] = ()
    """Region and endpoint, for the file system."""
    identity: TaskIdentity | None = None
    """Who reads and writes files in S3; None where the files are elsewhere, or where S3 is asked without a
    signature."""
    compression: str = "zstd"
    private: bool = True
    """Local files and folders are readable only by the user who runs Spark's workers. It has no effect on remote
    files."""
    unpack: bool = False
    """Whether aggregates of the Kinesis Producer Library are taken apart, into a row for each user record."""


OnWaiting = Callable[[str], None]
"""Called with a sentence for people, every few seconds while something takes long; maybe from another thread."""


@runtime_checkable
class LetsGo(Protocol):
    """A stage that keeps something (such as a process) for the shards which a run keeps from wave to wave."""

    def let_go(self, keys: Collection[ShardKey]) -> None:
        """Give up what the stage keeps for these shards. Called just before the run releases them."""
        ...


class Stage(Protocol):
    def open(self, on_waiting: OnWaiting) -> None:
        """Start the engine that the stage runs on, such as Spark, and return once it is ready. The first call may
        take minutes; a call on an open stage returns at once. Raises an error where the engine doesn't start; the
        next call then tries again.
        """
        ...

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        """Read and stage all batches, in one Spark job. A shard that fails has an error in the manifest, and
        doesn't stop the others.
        """
        ...
