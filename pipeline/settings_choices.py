"""The words that a knob may be, where it is one of a few."""

from enum import StrEnum


class StreamsMode(StrEnum):
    SINGLE = "single"
    MULTI = "multi"


class InitialPosition(StrEnum):
    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"


class FormerStreams(StrEnum):
    KEEP = "keep"
    AUTO = "auto"
    PROVIDED = "provided"


class OnDataLoss(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


class Layout(StrEnum):
    AUTO = "auto"
    """What is there already; M where nothing is."""
    M = "M"
    """Three tables, as KCL 3.0-3.4 has them."""
    S = "S"
    """One table, as KCL 3.5+ has it for new applications."""


class Heartbeat(StrEnum):
    WORKER = "worker"
    """One row per worker and tick."""
    LEASE = "lease"
    """Each lease's own counter, as KCL does: needed beside KCL workers."""


class Mode(StrEnum):
    OWN = "own"
    """A leader gives the leases out."""
    KCL_2 = "2.x"
    """Each worker helps itself, as in KCL 2.x."""


class Strategy(StrEnum):
    GAP = "gap"
    VARIANCE = "variance"
    LEASE_COUNT = "lease-count"


class Create(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class Billing(StrEnum):
    ON_DEMAND = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


class Wire(StrEnum):
    JSON = "json"
    CBOR = "cbor"
