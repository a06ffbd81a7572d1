"""The errors that Headrace raises, as a tree. Each message says what happened, what is safe, and what to do next.

    HeadraceError
    |- Transient            trying again later can succeed; no record was lost and no position moved
    |  |- Throttled         an AWS service refused too many requests, for longer than Headrace retries
    |  |- Unreachable       a service or store didn't answer
    |  |- ProcessDied       a process that a Headrace command supervises died
    |  |- BadAnswer         a service gave an answer that can't be right; the message has AWS's request id
    |  |- Overtaken         another process has committed first, and nothing of this process's commit landed
    |  |- CommitUnknown     whether a commit landed isn't known, because the table can't be read
    |  `- ClockOff          this host's clock differs too much from AWS's to put its time into a commit
    `- Terminal             a person has to change something first, such as a setting
       |- BadSetting        a setting is wrong; the message has its value and what is allowed
       |  `- WrongSettings  all mistakes in the settings file and the environment, one on each line
       |- Unknown           there is no such shard, stream or worker; the message has similar names
       |- TablesMissing     the coordination tables don't exist
       |- WrongStream       records, or a stream, aren't those that were asked for
       |- WrongShape        a table or row has another form than Headrace expects
       |- ChainBroken       the lake table's snapshots don't lead back to one that has positions
       |- MetadataLost      the metadata file of the lake table is gone or damaged
       |- OriginUnsafe      Headrace can't choose a stream's start without the risk to skip or repeat records
       |- DataLoss          records may have left the stream before they were read
       |- ProcessorStopped  the user's own processor failed, and its shards wait
       |- PositionsDisagree a lease row and the lake table have different positions
       `- MissingPackage    this process, or a Spark worker, lacks a Python package

A write whose condition no longer held, because another process wrote first, isn't an error: see
`headrace.pipeline.core.leases.change.Refused`.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class HeadraceError(Exception):
    """The base of all errors that Headrace raises on purpose."""


class Transient(HeadraceError):
    """An error after which the same call can succeed later."""


class Throttled(Transient):
    pass


class Unreachable(Transient):
    pass


class ProcessDied(Transient):
    pass


class BadAnswer(Transient):
    pass


class Overtaken(Transient):
    pass


class CommitUnknown(Transient):
    pass


class ClockOff(Transient):
    pass


class Terminal(HeadraceError):
    """An error after which the same call can't succeed until a person has changed something."""


class BadSetting(Terminal):
    pass


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in the settings, with its place."""

    place: str
    """The file with the line, or the environment variable."""
    key: str
    """The setting that is wrong; of a variable that belongs to no setting, its name."""
    sentence: str


class WrongSettings(BadSetting):
    """The settings have mistakes. Each line of the message names one mistake and its place."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        # Each sentence once: the same mistake may be met in more than one way.
        super().__init__("\n".join(dict.fromkeys(mistake.sentence for mistake in mistakes)))
        self.mistakes = tuple(mistakes)

    def __reduce__(self) -> tuple[type["WrongSettings"], tuple[tuple[Mistake, ...]]]:
        return WrongSettings, (self.mistakes,)


class Unknown(Terminal):
    pass


class TablesMissing(Terminal):
    pass


class WrongStream(Terminal):
    pass


class WrongShape(Terminal):
    pass


class ChainBroken(Terminal):
    pass


class MetadataLost(Terminal):
    pass


class OriginUnsafe(Terminal):
    pass


class DataLoss(Terminal):
    pass


class ProcessorStopped(Terminal):
    pass


class PositionsDisagree(Terminal):
    pass


class MissingPackage(Terminal):
    pass
