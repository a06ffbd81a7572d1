"""Observations for the assets of streams and of others that no run materializes: numbers that Dagster plots over
time.
"""

from collections.abc import Iterator, Mapping

import dagster as dg

from headrace.assets.names import leases_key, records_key, stream_key
from headrace.assets.outside import found_key
from headrace.assets.reporter import VALID_THROUGH
from headrace.assets.shown import totals_of
from headrace.pipeline.checking.lag import lags, stream_of
from headrace.pipeline.checking.look import CheckLook
from headrace.pipeline.core.landing.valid_through import overall
from headrace.pipeline.core.leases.lag import longest
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in


def observations(settings: Settings, look: CheckLook) -> Iterator[dg.AssetObservation]:
    """The observations: one for each stream, one for the lease table, and one for the lake table."""
    for stream, rows in _by_stream(settings, look).items():
        yield dg.AssetObservation(_key(settings, stream), metadata=_of_stream(settings, look, rows))
    yield dg.AssetObservation(leases_key(settings), metadata=_of_leases(look))
    if look.facts is not None:
        through = overall(look.through, look.positions)
        told = {} if through is None else {VALID_THROUGH: dg.MetadataValue.timestamp(through)}
        yield dg.AssetObservation(records_key(settings), metadata={**totals_of(look.facts), **told})


def _of_leases(look: CheckLook) -> dict[str, dg.MetadataValue]:
    is_open = [row for row in look.leases if not row.has_ended]
    number = dg.MetadataValue.int
    return {
        "rows": number(len(look.leases)),
        "open leases": number(len(is_open)),
        "open leases without an owner": number(sum(row.holder is None for row in is_open)),
        "workers with leases": number(len({row.holder for row in is_open if row.holder is not None})),
        "handovers under way": number(sum(row.checkpoint_owner is not None for row in is_open)),
    }


def _by_stream(settings: Settings, look: CheckLook) -> Mapping[str, list[Lease]]:
    by_stream: dict[str, list[Lease]] = {}
    for row in look.leases:
        # Without a stream in its key, a row belongs to the only stream of the application.
        name = stream_of(row.key) or name_in(settings.streams[0].name)
        by_stream.setdefault(name, []).append(row)
    return by_stream


def _key(settings: Settings, stream: str) -> dg.AssetKey:
    return stream_key(stream) if settings.stream(stream) is not None else found_key(settings)


def _of_stream(settings: Settings, look: CheckLook, rows: list[Lease]) -> dict[str, dg.MetadataValue]:
    """Each name begins with the application's, because several applications may read the stream."""
    is_open = [row for row in rows if not row.has_ended]
    by_key = {key: now.lag for key, now in lags(look).items()}
    known = {row.key: lag.total_seconds() for row in is_open if (lag := by_key[row.key]) is not None}
    most = longest(by_key[row.key] for row in is_open)
    rates = {row.key: row.throughput_kbps or 0.0 for row in is_open}
    # Sums of nothing are whole numbers, which Dagster refuses here.
    rate = float(sum(rates.values()))
    backlog = float(sum(known[key] * rates[key] for key in known) / 1000)
    number, name = dg.MetadataValue.float, settings.application
    # Where the lag of a shard isn't known, 0 would say that all is read.
    told = {} if most.seconds is None else {f"{name}: lag (seconds)": number(round(most.seconds, 1))}
    return {
        **told,
        f"{name}: rate (KB/s)": number(round(rate, 3)),
        f"{name}: backlog (MB, estimated)": number(round(backlog, 3)),
        f"{name}: open shards": dg.MetadataValue.int(len(is_open)),
        f"{name}: ended shards": dg.MetadataValue.int(len(rows) - len(is_open)),
        f"{name}: shards behind": dg.MetadataValue.int(sum(seconds > 0 for seconds in known.values())),
        f"{name}: shards of unknown lag": dg.MetadataValue.int(most.unknown),
        f"{name}: failing shards": dg.MetadataValue.int(sum(row.failure is not None for row in is_open)),
    }
