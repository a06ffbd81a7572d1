"""A run's attempt to read, put together from what a small world has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.duties.claims import Claims
from pipeline.duties.consume import Consumption
from pipeline.duties.wave import OnArrow

if TYPE_CHECKING:
    from tests.duties.life import Life
    from tests.duties.world import World


def an_attempt(
    place: Life | World,
    run: str,
    *,
    worker: str = "w1",
    over: Iterable[str] = (),
    on_arrow: OnArrow = lambda _arrow, _keys: None,
) -> Consumption:
    claims = Claims(
        me=worker,
        claim=f"{run}/{place.ids.fresh()}",
        leases=place.leases,
        workers=place.rows,
        runs=place.runs,
        clock=place.clock,
        times=place.settings.times,
        over=frozenset(over),
    )
    return Consumption(
        run_id=run,
        settings=place.settings,
        claims=claims,
        leases=place.leases,
        workers=place.rows,
        source=place.source,
        table=place.table,
        stage=place.stage,
        clock=place.clock,
        on_arrow=on_arrow,
    )
