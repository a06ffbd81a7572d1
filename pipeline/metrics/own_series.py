"""Headrace's own series, which KCL doesn't have. Their operations begin with `Headrace`, to distinguish them from
KCL's.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.metrics.series import Dimension, Instrument, Level, Series, Unit

_COUNT, _BYTES, _MS, _SECONDS = Unit.COUNT, Unit.BYTES, Unit.MILLISECONDS, Unit.SECONDS
_S, _D = Level.SUMMARY, Level.DETAILED
_STREAM = (Dimension.STREAM_NAME,)
_HISTOGRAM, _GAUGE = Instrument.HISTOGRAM, Instrument.GAUGE

# -- waves: sent by the runs -----------------------------------------------------------------------------------------

RECORDS_LANDED: Final = Series("HeadraceLanding", "RecordsLanded", _COUNT, _S, _STREAM)
BYTES_LANDED: Final = Series("HeadraceLanding", "BytesLanded", _BYTES, _S, _STREAM)
COMMIT_TIME: Final = Series("HeadraceLanding", "Commit.Time", _MS, _S, (), _HISTOGRAM)
STAGE_TIME: Final = Series("HeadraceLanding", "Stage.Time", _MS, _D, (), _HISTOGRAM)
WAVE_TIME: Final = Series("HeadraceLanding", "Wave.Time", _MS, _S, (), _HISTOGRAM)
SHARDS_FAILED: Final = Series("HeadraceLanding", "ShardsFailed", _COUNT, _S)

# -- the fleet: sent by the leader's sensor, as long as it leads -------------------------------------------------------

LAG: Final = Series("HeadraceFleet", "Lag", _SECONDS, _S, _STREAM, _GAUGE)
UNKNOWN_LAG_SHARDS: Final = Series("HeadraceFleet", "UnknownLagShards", _COUNT, _S, _STREAM, _GAUGE)
BACKLOG: Final = Series("HeadraceFleet", "Backlog", _BYTES, _S, _STREAM, _GAUGE)
RETENTION_LEFT: Final = Series("HeadraceFleet", "RetentionLeft", _SECONDS, _S, _STREAM, _GAUGE)
VALID_THROUGH_AGE: Final = Series("HeadraceFleet", "ValidThroughAge", _SECONDS, _S, _STREAM, _GAUGE)
FAILING_SHARDS: Final = Series("HeadraceFleet", "FailingShards", _COUNT, _S, (), _GAUGE)
UNREAD_SHARDS: Final = Series("HeadraceFleet", "UnreadShards", _COUNT, _S, (), _GAUGE)
SNAPSHOTS: Final = Series("HeadraceFleet", "Snapshots", _COUNT, _S, (), _GAUGE)

# -- a worker: sent by its sensor --------------------------------------------------------------------------------------

SHARDS_DUE: Final = Series("HeadraceWorker", "ShardsDue", _COUNT, _S, (Dimension.WORKER,), _GAUGE)

# -- typed tables ------------------------------------------------------------------------------------------------------

ROWS_PARSED: Final = Series("HeadraceParse", "RowsParsed", _COUNT, _S, (Dimension.TARGET,))
ROWS_QUARANTINED: Final = Series("HeadraceParse", "RowsQuarantined", _COUNT, _S, (Dimension.TARGET,))

# -- each process ------------------------------------------------------------------------------------------------------

CALLS: Final = Series("HeadraceAws", "Calls", _COUNT, _D, (Dimension.CALL,))
THROTTLES: Final = Series("HeadraceAws", "Throttles", _COUNT, _S, (Dimension.CALL,))
DROPPED: Final = Series("HeadraceMetrics", "Dropped", _COUNT, _S)

ALL: Final = tuple(series for series in list(vars().values()) if isinstance(series, Series))
