"""What can go wrong, as a tree: each error says what happened, what is safe, and what comes next.

    HeadraceError
    |- Transient            trying again later is right; nothing was lost and nothing moved
    |  |- Throttled         an AWS service asked us to slow down, past our own patience
    |  |- Unreachable       a service or store didn't answer
    |  |- CommitUnknown     the table couldn't be asked whether a commit landed
    |  `- ClockOff          this host's clock is too far off to stamp a commit
    `- Terminal             a person or a setting has to change first
       |- BadSetting        a setting is wrong: named with its value and what is allowed
       |- Unknown           a shard, stream or worker that isn't there: near names are given
       |- TablesMissing     the coordination tables aren't there and may not be created
       |- WrongShape        a table or row that isn't ours or that we don't understand
       |- ChainBroken       the lake table has snapshots of ours, but no walk leads to their positions
       |- OriginUnsafe      an origin can't be chosen without risking to skip or repeat records
       |- DataLoss          records may have left the stream before they were read
       |- PositionsDisagree lease row and lake table tell different stories
       |- WorkerTaken       another Dagster instance beats under this worker's id
       `- MissingPackage    a Spark worker lacks a package that our task imports

A lost race is not an error: see `pipeline.core.change.Refused`.
"""


class HeadraceError(Exception):
    """Anything this package raises on purpose."""


class Transient(HeadraceError):
    """Trying again later is right."""


class Throttled(Transient):
    pass


class Unreachable(Transient):
    pass


class CommitUnknown(Transient):
    pass


class ClockOff(Transient):
    pass


class Terminal(HeadraceError):
    """Trying again changes nothing until a person or a setting does."""


class BadSetting(Terminal):
    pass


class Unknown(Terminal):
    pass


class TablesMissing(Terminal):
    pass


class WrongShape(Terminal):
    pass


class ChainBroken(Terminal):
    pass


class OriginUnsafe(Terminal):
    pass


class DataLoss(Terminal):
    pass


class PositionsDisagree(Terminal):
    pass


class WorkerTaken(Terminal):
    pass


class MissingPackage(Terminal):
    pass
