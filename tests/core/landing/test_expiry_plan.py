"""Which snapshots may go: one example for each rule, and random histories beside a slow, obvious model."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.expiry_plan import MAIN, History, Keep, Ref, Seen, Shape, Why, plan_expiry

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEEP = Keep(snapshots=2, younger_than=HOUR)


def old(number: int, parent: int | None, *, carries: bool = True, is_pick: bool = False) -> Seen:
    """A snapshot of days ago. Its id is its sequence number."""
    return Seen(number, parent, number, NOW - timedelta(days=100 - number), carries=carries, is_pick=is_pick)


def line(length: int, *, foreign: tuple[int, ...] = ()) -> History:
    """Snapshots 1 to `length`, each the child of the one before, with main at the last one."""
    seen = (old(n, n - 1 if n > 1 else None, carries=n not in foreign) for n in range(1, length + 1))
    return History({each.snapshot: each for each in seen}, {MAIN: Ref(length, is_branch=True)}, "uuid")


def with_refs(history: History, **refs: Ref) -> History:
    return replace(history, refs={**history.refs, **refs})


def plan(history: History, *, recorded: int | None = -1, keep: Keep = KEEP) -> dict[int, Why | None]:
    """Each snapshot, with the reason why it stays or None. Everything is recorded unless a test says something else."""
    made = plan_expiry(history, recorded=history.head if recorded == -1 else recorded, keep=keep, now=NOW)
    assert not made.stays.keys() & set(made.goes)
    assert made.stays.keys() | set(made.goes) == history.snapshots.keys()
    return {**made.stays, **dict.fromkeys(made.goes)}


def gone(history: History, *, recorded: int | None = -1, keep: Keep = KEEP) -> list[int]:
    return sorted(each for each, why in plan(history, recorded=recorded, keep=keep).items() if why is None)


# --- one rule each ------------------------------------------------------------------------------------------


def test_old_snapshots_go_and_the_newest_stay():
    found = plan(line(6), recorded=5)
    assert found == {1: None, 2: None, 3: None, 4: None, 5: Why.RECORDED, 6: Why.UNRECORDED}
    assert gone(line(6), keep=replace(KEEP, snapshots=4)) == [1, 2]


def test_the_oldest_go_first():
    assert plan_expiry(line(6), recorded=6, keep=KEEP, now=NOW).goes == (1, 2, 3, 4)


def test_young_snapshots_stay_however_many_they_are():
    assert gone(line(6), keep=Keep(1, timedelta(days=100 - 3) + HOUR)) == [1, 2]


def test_a_snapshot_of_just_the_age_goes():
    assert gone(line(6), keep=Keep(1, timedelta(days=100 - 3))) == [1, 2, 3]


def test_everything_from_the_head_of_main_down_to_its_positions_stays():
    found = plan(line(9, foreign=(6, 7, 8, 9)))
    assert {n for n, why in found.items() if why is None} == {1, 2, 3, 4}
    assert [found[n] for n in (5, 6, 7, 8)] == [Why.STATE] * 4


def test_a_history_that_is_cut_above_its_positions_stays_whole():
    history = line(6, foreign=(5, 6))
    cut = replace(history, snapshots={n: s for n, s in history.snapshots.items() if n != 4})
    assert set(plan(cut).values()) == {Why.NO_STATE}


def test_a_table_into_which_headrace_never_landed_stays_whole():
    assert set(plan(line(3, foreign=(1, 2, 3))).values()) == {Why.NO_STATE}
    assert plan(History()) == {}


def test_a_cherry_pick_above_the_positions_keeps_everything():
    history = line(6, foreign=(5, 6))
    picked = {**history.snapshots, 5: replace(history.snapshots[5], is_pick=True)}
    assert set(plan(replace(history, snapshots=picked)).values()) == {Why.NO_STATE}


def test_the_snapshot_of_a_tag_stays_without_its_ancestors():
    assert gone(with_refs(line(8), audit=Ref(4))) == [1, 2, 3, 5, 6]


def test_a_tag_on_another_engines_snapshot_keeps_the_way_to_its_positions():
    """Main can be rolled back to the tag, and then needs the positions of snapshot 2."""
    found = plan(with_refs(line(9, foreign=(3, 4)), audit=Ref(4)))
    assert (found[4], found[3], found[2], found[1]) == (Why.REF, Why.WAY, Why.WAY, None)


def test_tags_on_one_way_each_keep_it_down_to_the_positions():
    """Main can be rolled back to either tag, and the way from the later one leads over the other."""
    found = plan(with_refs(line(9, foreign=(3, 4, 5)), audit=Ref(3), release=Ref(5)))
    assert [found[n] for n in range(1, 7)] == [None, Why.WAY, Why.REF, Why.WAY, Why.REF, None]


def test_the_newest_of_a_branch_stay():
    history = line(9)
    for n in (11, 12, 13):
        history = replace(history, snapshots={**history.snapshots, n: old(n, 4 if n == 11 else n - 1)})
    assert gone(with_refs(history, audit=Ref(13, is_branch=True))) == [1, 2, 3, 4, 5, 6, 7, 11]


def test_a_branch_may_keep_more_by_its_own_settings():
    more = Ref(5, is_branch=True, at_least=3)
    assert gone(with_refs(line(9), audit=more)) == [1, 2, 6, 7]
    longer = Ref(5, is_branch=True, at_most=timedelta(days=100 - 2) + HOUR)
    assert gone(with_refs(line(9), audit=longer)) == [1, 6, 7]
    fewer = Ref(5, is_branch=True, at_least=1, at_most=timedelta())
    assert gone(with_refs(line(9), audit=fewer)) == [1, 2, 3, 6, 7]


def test_snapshots_whose_ledgers_are_not_recorded_stay():
    assert gone(line(9), recorded=3) == [1, 2]
    assert gone(line(9), recorded=None) == []


def test_nothing_goes_while_the_recorded_snapshot_is_not_on_main():
    """After a rollback of main, and before the lineage table has followed it."""
    history = with_refs(line(9), **{MAIN: Ref(5, is_branch=True)})
    assert set(plan(history, recorded=9).values()) == {Why.UNRECORDED}
    assert gone(history) == [1, 2, 3, 6, 7, 8, 9]


def test_snapshots_that_were_rolled_back_stay_while_they_are_young():
    history = with_refs(line(9), **{MAIN: Ref(5, is_branch=True)})
    assert gone(history, keep=Keep(2, timedelta(days=100 - 8) + HOUR)) == [1, 2, 3, 6, 7]


def test_a_young_snapshot_that_was_rolled_back_keeps_the_way_to_its_positions():
    """A person can set main to it again, and then needs the positions of snapshot 6."""
    history = with_refs(line(9, foreign=(7, 8, 9)), **{MAIN: Ref(5, is_branch=True)})
    only_the_newest = Keep(2, timedelta(days=100 - 9) + HOUR)
    reasons = plan(history, keep=only_the_newest)
    assert [reasons[n] for n in (9, 8, 7, 6)] == [Why.YOUNG, Why.WAY, Why.WAY, Why.WAY]


def test_a_table_that_forbids_expiry_keeps_everything():
    assert set(plan(replace(line(9), is_frozen=True)).values()) == {Why.FROZEN}


# --- the shape of the history ---------------------------------------------------------------------------------


def test_the_positions_are_committed_again_before_they_can_no_longer_be_found():
    assert [Shape(300, foreign).needs_carrying for foreign in (0, 49, 50)] == [False, False, True]
    assert Shape(300, 1, is_cut=True).needs_carrying


def test_a_plan_is_due_once_the_snapshots_are_25_more_than_the_last_plan_kept():
    assert [Shape(n).is_due(100) for n in (124, 125)] == [False, True]
    assert [Shape(n).is_due(100, late=4) for n in (199, 200)] == [False, True]


# --- random histories beside a model ----------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Commits of Headrace and others on main and on branches, rollbacks, tags, cherry-picks, snapshots cut out by others."""
    snapshots: dict[int, Seen] = {}
    refs: dict[str, Ref] = {}
    at = NOW - timedelta(hours=draw(st.integers(0, 30)))
    for number in range(1, draw(st.integers(1, 14)) + 1):
        branch = draw(st.sampled_from([MAIN, MAIN, MAIN, "audit"]))
        start = refs.get(branch, refs.get(MAIN))
        at += timedelta(minutes=draw(st.integers(0, 180)))
        kind = draw(st.sampled_from(["ours", "ours", "ours", "foreign", "foreign", "pick"]))
        snapshots[number] = Seen(
            number,
            start.snapshot if start else None,
            number,
            at,
            carries=kind == "ours",
            is_pick=kind == "pick",
        )
        at_least = draw(st.sampled_from([0, 0, 4])) if branch != MAIN else 0
        refs[branch] = Ref(number, is_branch=True, at_least=at_least)
        event = draw(st.sampled_from(["", "", "", "rollback", "tag"]))
        if event == "rollback":
            refs[MAIN] = Ref(draw(st.sampled_from(sorted(snapshots))), is_branch=True)
        elif event == "tag":
            refs[f"tag{number}"] = Ref(draw(st.sampled_from(sorted(snapshots))))
    named = {ref.snapshot for ref in refs.values()}
    cut = draw(st.sets(st.sampled_from(sorted(snapshots)), max_size=2)) - named
    return History({n: s for n, s in snapshots.items() if n not in cut}, refs, "uuid")


def ancestry(history: History, at: int | None) -> list[Seen]:
    found = []
    while at in history.snapshots:
        assert at is not None
        found.append(history.snapshots[at])
        at = history.snapshots[at].parent
    return found


def way(history: History, start: int) -> set[int]:
    """The snapshots from `start` to the nearest one that carries; empty if there is none."""
    seen: list[int] = []
    for each in ancestry(history, start):
        seen.append(each.snapshot)
        if each.carries:
            return set(seen)
    return set()


def stays_by_the_model(history: History, recorded: int | None, keep: Keep) -> set[int]:
    everything = set(history.snapshots)
    main = ancestry(history, history.refs[MAIN].snapshot)
    ids = [each.snapshot for each in main]
    up_to_state = way(history, ids[0]) if ids else set()
    if recorded not in ids or not up_to_state or any(history.snapshots[n].is_pick for n in up_to_state):
        return everything
    stays = set(ids[: ids.index(recorded) + 1]) | up_to_state
    for ref in history.refs.values():
        stays.add(ref.snapshot)
        if ref.is_branch:
            newest = ancestry(history, ref.snapshot)[: max(keep.snapshots, ref.at_least)]
            stays |= {each.snapshot for each in newest}
    stays |= {n for n in everything if NOW - history.snapshots[n].at < keep.younger_than}
    for each in list(stays):
        stays |= way(history, each)
    return stays & everything


@given(histories(), st.data())
def test_random_histories_keep_what_the_model_keeps(history: History, data: st.DataObject):
    recorded = data.draw(st.sampled_from([None, history.head, *history.snapshots]))
    keep = Keep(data.draw(st.integers(1, 4)), timedelta(hours=data.draw(st.integers(0, 12))))
    made = plan_expiry(history, recorded=recorded, keep=keep, now=NOW)
    assert set(made.stays) == stays_by_the_model(history, recorded, keep)
    assert set(made.goes) == set(history.snapshots) - set(made.stays)


@given(histories(), st.integers(1, 4))
def test_after_an_expiry_main_can_be_rolled_back_to_whatever_is_left(history: History, newest: int):
    """Whatever snapshot main is set back to, its positions are the same as they would have been before the expiry."""
    made = plan_expiry(history, recorded=history.head, keep=Keep(newest, HOUR), now=NOW)
    after = replace(history, snapshots={n: s for n, s in history.snapshots.items() if n in made.stays})
    for each in after.snapshots:
        assert way(after, each) == way(history, each)


@given(histories(), st.integers(1, 4))
def test_after_an_expiry_a_second_one_finds_nothing(history: History, newest: int):
    keep = Keep(newest, HOUR)
    made = plan_expiry(history, recorded=history.head, keep=keep, now=NOW)
    after = replace(history, snapshots={n: s for n, s in history.snapshots.items() if n in made.stays})
    again = plan_expiry(after, recorded=history.head, keep=keep, now=NOW)
    assert again.goes == ()
