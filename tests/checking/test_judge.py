"""Each check holds on a healthy application, and fails on the damage that it is for."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.checking.judge import verdicts
from headrace.pipeline.checking.lag import Lag
from headrace.pipeline.checking.look import Chains, CheckLook
from headrace.pipeline.checking.verdict import Verdict
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.settings.blocks.dagster import CheckSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.settings.choices import CHECKS
from tests.checking.looks import DAY, HOUR, MINUTE, NOW, STREAM, facts, healthy, key, positions, shard

LIMITS = CheckSettings(proof=DAY)


def judged(look: CheckLook, before: dict[str, Lag] | None = None) -> dict[str, Verdict]:
    found = verdicts(look, LIMITS, UpkeepSettings(), before or {})
    return {verdict.check: verdict for verdict in found}


def failing(look: CheckLook, before: dict[str, Lag] | None = None) -> set[str]:
    return {name for name, verdict in judged(look, before).items() if not verdict.holds}


def with_row(look: CheckLook, number: int, **changed: object) -> CheckLook:
    rows = tuple(replace(row, **changed) if row.key == shard(number) else row for row in look.leases)  # type: ignore[arg-type]
    return replace(look, leases=rows)


def with_target(look: CheckLook, **changed: object) -> CheckLook:
    (target,) = look.targets
    return replace(look, targets=(replace(target, **changed),))  # type: ignore[arg-type]


def test_a_healthy_application_passes_each_check_and_there_is_one_for_each_name_of_the_settings():
    found = judged(healthy())
    assert set(found) == CHECKS
    assert failing(healthy()) == set()
    assert all(verdict.sentence for verdict in found.values())


DAMAGES: dict[str, Callable[[CheckLook], CheckLook]] = {
    "no_gaps": lambda look: replace(look, chains=Chains(breaks=(("orders/1", "a range begins after 20"),))),
    "no_duplicates": lambda look: replace(look, chains=Chains(overlaps=(("orders/1", "begins after 5"),))),
    "parents_before_children": lambda look: replace(
        look, positions=Positions({}, positions() | {key(0): Position(9)})
    ),
    "hash_keys_covered": lambda look: replace(look, leases=look.leases[:2]),
    "lag": lambda look: with_row(look, 1, behind_ms=1, looked_at=NOW - 11 * MINUTE),
    "shards_read": lambda look: with_row(look, 1, failure=Failure(NOW - MINUTE, "access denied")),
    "watermark_age": lambda look: replace(look, through={STREAM: NOW - 3 * HOUR}),
    "upkeep": lambda look: replace(look, snapshots=2_000),
    "last_proof": lambda look: replace(look, proved_at=NOW - 2 * DAY),
    "recorded": lambda look: replace(look, lost_ledgers=1),
    "keeps_up": lambda look: with_target(look, behind_since=NOW - 11 * MINUTE),
    "quarantine_rate": lambda look: with_target(look, aside=facts("lake.sold_quarantine", lately=200)),
}


@pytest.mark.parametrize("check", DAMAGES)
def test_a_check_fails_on_its_damage_alone_and_names_what_is_wrong(check: str):
    look = DAMAGES[check](healthy())
    assert failing(look) == {check}
    verdict = judged(look)[check]
    assert verdict.offenders
    assert verdict.sentence != judged(healthy())[check].sentence


def test_a_recorded_loss_fails_for_a_week_and_is_only_counted_afterwards():
    def lost(ago: timedelta) -> CheckLook:
        return replace(
            healthy(), chains=Chains(skips=(("orders/1", NOW - ago, "records up to 20 are lost"),))
        )

    assert failing(lost(DAY)) == {"no_gaps"}
    assert failing(lost(8 * DAY)) == set()
    assert "older than a week: 1 loss" in judged(lost(8 * DAY))["no_gaps"].sentence


def test_a_shard_at_its_tip_has_no_lag_however_long_ago_it_was_read():
    assert failing(with_row(healthy(), 1, looked_at=NOW - 5 * HOUR)) == set()

    def waits(since: timedelta) -> CheckLook:
        look = with_row(healthy(), 1, looked_at=NOW - 5 * HOUR)
        return replace(look, waiting={shard(1): NOW - since})

    assert failing(waits(MINUTE)) == set(), "a record that came just now"
    assert failing(waits(11 * MINUTE)) == {"lag"}
    assert [judged(waits(period))["lag"].behind for period in (MINUTE, 11 * MINUTE)] == [MINUTE, 11 * MINUTE]


def test_a_quiet_shard_of_a_dead_worker_lags_since_it_was_read_last():
    """Nobody has looked for what came since then."""
    look = with_row(healthy(), 1, looked_at=NOW - 11 * MINUTE)
    assert failing(replace(look, readers={})) == {"lag"}
    assert failing(with_row(look, 1, owner=None)) == {"lag"}


def test_a_child_that_waits_for_its_parent_adds_no_lag_to_the_parents():
    look = with_row(healthy(), 0, checkpoint=Checkpoint("10"), owner="w1", looked_at=NOW, behind_ms=0)
    look = with_row(look, 1, looked_at=None, behind_ms=None, assigned_at=NOW - HOUR)
    assert judged(look)["lag"].holds


def test_a_shard_that_falls_behind_tells_in_which_time_it_loses_data_at_this_rate():
    # Ten minutes ago it was 17 h behind; now 17 h 5 min: it loses half a second of each second.
    before = {shard(1): Lag(NOW - 10 * MINUTE, 17 * HOUR)}
    look = with_row(healthy(), 1, behind_ms=1, looked_at=NOW - 17 * HOUR - 5 * MINUTE)
    assert "retention_at_risk" not in failing(look, before)
    faster = {shard(1): Lag(NOW - 5 * MINUTE, 17 * HOUR - 5 * MINUTE)}
    assert (
        judged(look, faster)["retention_at_risk"].sentence
        == f"1 shard loses data within 6 h: {shard(1)}: the shard loses data in 3 h 28 min at this rate: it is 17 h 5 min behind"
    )


def test_a_shard_that_catches_up_is_no_risk_and_one_that_isnt_read_loses_as_time_passes():
    look = with_row(healthy(), 1, behind_ms=1, looked_at=NOW - 20 * HOUR)
    assert "retention_at_risk" not in failing(look, {shard(1): Lag(NOW - MINUTE, 21 * HOUR)})
    stands = {shard(1): Lag(NOW - MINUTE, 20 * HOUR - MINUTE)}
    verdict = judged(look, stands)["retention_at_risk"]
    assert verdict.is_grave
    assert "in 4 h at this rate" in verdict.sentence


def test_a_proof_that_did_not_hold_fails_with_its_sentence_also_without_a_limit():
    look = replace(healthy(), disproved="2 rows are there twice")
    (verdict,) = (v for v in verdicts(look, CheckSettings(), UpkeepSettings(), {}) if v.check == "last_proof")
    assert not verdict.holds
    assert verdict.is_grave
    assert verdict.sentence == "2 rows are there twice"


def test_a_table_whose_stream_was_switched_off_fails_and_leases_without_hash_keys_are_no_holes():
    of_table = replace(
        healthy(), leases=tuple(replace(row, hash_range=None) for row in healthy().leases if row.has_ended)
    )
    held = judged(of_table)["hash_keys_covered"]
    assert held.holds
    assert held.sentence == "no stream that is read by hash keys, and none that was switched off"
    off = judged(replace(of_table, switched_off=(STREAM,)))["hash_keys_covered"]
    assert not off.holds
    assert "was switched off" in off.offenders[0].what
