"""Waves of processors with real processes: what counts, what an error costs, and what it never costs."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Range
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import BadSetting, ChainBroken, Overtaken, ProcessorStopped, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.processors.account import ProcessorAccount
from headrace.pipeline.processors.states import states_at
from headrace.pipeline.processors.values import WaveBefore
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.blocks.processors import ProcessorLimits
from headrace.pipeline.settings.choices import OnProcessorError
from headrace.pipeline.typed.values import WaveLimits
from tests.lake.samples import NOON
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A, B

CHILD = "shardId-000000000007"


def landed(tmp_path: Path, *words: str, **settings) -> ProcessorBed:
    """Records 1, 2, 3, ... of A with these words, and a record of B."""
    bed = ProcessorBed(tmp_path, **settings)
    bed.land(A, {number: word.encode() for number, word in enumerate(words, start=1)})
    bed.land(B, {10: b"other"})
    return bed


def stopped(bed: ProcessorBed, **how) -> str:
    with pytest.raises(ProcessorStopped) as raised:
        bed.catch_up(**how)
    return str(raised.value)


@pytest.mark.parametrize("code", ["counting:rows", "counting:Words", "counting:AtShutdown"])
def test_a_processor_gives_each_record_once_and_goes_on_with_its_state(tmp_path: Path, code: str):
    bed = landed(tmp_path, "a", "b", "a", callable=code)
    bed.catch_up()
    bed.land(A, {4: b"a", 5: b"b"})
    assert bed.catch_up()[0].startswith("2 records processed into 2 rows")
    assert bed.words() == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("other", 1)]
    assert bed.state(A) == '{"a":3,"b":2}'
    assert bed.catch_up() == ["no new record was processed"]


def test_a_shards_end_is_checkpointed_once_and_its_children_come_after_it(tmp_path: Path):
    bed = landed(tmp_path, "a", callable="counting:Words")
    bed.land(A, {}, ended=[CHILD])
    child = type(A)(A.stream, CHILD)
    bed.land(child, {20: b"a"}, parents=[A.shard_id])
    bed.catch_up()
    # The child's processor is a new one, with a state of its own.
    assert [row for row in bed.rows() if row[0] != B.shard_id] == [
        (A.shard_id, 1, "a", 1),
        (A.shard_id, 1, "ended", 1),
        (CHILD, 20, "a", 1),
    ]
    assert bed.table().load().positions.has_ended(A)


def test_a_child_that_no_position_names_waits_while_the_processor_has_stopped_at_its_parent(tmp_path: Path):
    """`headrace repair` has left out the former life of a stream that was created again."""
    bed = landed(tmp_path, "a")
    bed.catch_up()
    bed.land(A, {2: b"bad"}, ended=[CHILD])
    bed.land(type(A)(A.stream, CHILD), {20: b"c"}, parents=[A.shard_id])
    later = StreamId(A.stream.arn, A.stream.epoch + 1000)
    lake = bed.lake.lake.handle()
    lake.rebuild(
        Landing(LedgerPage(), (), (), Positions({later: Origin(TRIM, NOON)})), on=lake.load().snapshot
    )
    for _ in range(2):
        assert "no such word" in stopped(bed)
        assert bed.words() == [("a", 1), ("other", 1)]
    bed.settings = replace(bed.settings, on_error=OnProcessorError.QUARANTINE)
    bed.catch_up()
    assert bed.words() == [("a", 1), ("other", 1), ("c", 1)]
    assert bed.aside().keys() == {2}


def test_rows_of_a_shards_end_in_a_later_wave_have_row_numbers_of_their_own(tmp_path: Path):
    bed = landed(tmp_path, "a", callable="counting:Words")
    bed.catch_up()
    bed.land(A, {}, ended=[CHILD])
    bed.catch_up()
    names = ("shard_id", "sequence_number", "sub_sequence_number", "row_number", "word")
    rows = [tuple(row.values()) for row in read.rows(bed.table(), names).to_pylist()]
    assert sorted(row for row in rows if row[0] == A.shard_id) == [
        (A.shard_id, "1", 0, 0, "a"),
        (A.shard_id, "1", 0, 1, "ended"),
    ]


def test_a_forgotten_end_is_asked_for_again_and_then_told_and_the_children_wait(tmp_path: Path):
    bed = landed(tmp_path, "a", callable="counting:ForgetsTheEnd")
    bed.land(A, {}, ended=[CHILD])
    bed.land(type(A)(A.stream, CHILD), {20: b"a"}, parents=[A.shard_id])
    assert "hasn't checkpointed that in shard_ended, although it was asked 2 times" in stopped(bed)
    assert bed.words() == [("a", 1), ("other", 1)]
    bed.settings = replace(bed.settings, callable="counting:Words")
    bed.catch_up()
    assert ("a", 1) in bed.words()[1:]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("bad", "processRecords raised ValueError: no such word"),
        ("die", "the processor's process has ended with exit code 3"),
        ("hang", "the processor hasn't answered within 1 s"),
    ],
)
def test_an_error_stops_its_shard_before_the_failed_call_and_no_other_one(
    tmp_path: Path, word: str, told: str
):
    bed = landed(tmp_path, "a", "b", word, "c", timeout=timedelta(seconds=1), records=2)
    sentence = stopped(bed)
    assert told in sentence
    assert "at one of the records 3/0 to 4/0" in sentence
    assert bed.words() == [("a", 1), ("b", 1), ("other", 1)]
    # Nothing is passed over: the next run meets the same record.
    bed.land(B, {11: b"more"})
    assert told in stopped(bed)
    assert bed.words() == [("a", 1), ("b", 1), ("other", 1), ("more", 1)]


def test_a_shard_that_has_stopped_takes_no_room_of_a_wave_from_the_others(tmp_path: Path):
    bed = landed(tmp_path, "bad", "a")
    assert "no such word" in stopped(bed, limits=WaveLimits(1, 2**30))
    assert bed.words() == [("other", 1)]


def test_a_traceback_tells_the_line_of_the_users_code(tmp_path: Path):
    told = stopped(landed(tmp_path, "bad"))
    assert 'raise ValueError("no such word")' in told
    # The frames that call the user's code are the same for each error.
    assert "headrace/kclpy" not in told


def test_files_that_a_class_names_without_a_folder_are_beside_the_settings(tmp_path: Path):
    beside = tmp_path / "settings"
    beside.mkdir()
    (beside / "noting.py").write_text(
        "def rows(records, state):\n    with open('seen.txt', 'a') as seen:\n"
        "        print(*(record.binary_data.decode() for record in records), file=seen)\n    return [], state\n"
    )
    landed(tmp_path, "a", "b", callable="noting:rows", written=Written(str(beside))).catch_up()
    assert sorted((beside / "seen.txt").read_text().splitlines()) == ["a b", "other"]


@pytest.mark.parametrize(
    ("word", "limits", "told"),
    [
        ("spin", ProcessorLimits(cpu=timedelta(seconds=1)), "more CPU than limits.cpu"),
        ("eat", ProcessorLimits(memory=1 << 30), "MemoryError"),
    ],
)
def test_cpu_and_memory_of_a_process_are_limited(
    tmp_path: Path, word: str, limits: ProcessorLimits, told: str
):
    bed = landed(tmp_path, "a", word, limits=limits, records=1, timeout=timedelta(seconds=20))
    assert told in stopped(bed)
    assert bed.words() == [("a", 1), ("other", 1)]


def test_a_failed_call_is_tried_again_from_the_last_checkpoint(tmp_path: Path):
    marker = f"once:{tmp_path}/tried"
    bed = landed(
        tmp_path,
        "a",
        marker,
        records=1,
        on_error=OnProcessorError.RETRY,
        backoff=timedelta(0),
    )
    bed.catch_up()
    assert bed.words() == [("a", 1), (marker, 1), ("other", 1)]


def test_a_call_that_goes_on_failing_stops_the_shard(tmp_path: Path):
    bed = landed(tmp_path, "bad", on_error=OnProcessorError.RETRY, backoff=timedelta(0))
    assert "no such word" in stopped(bed)


def test_the_record_at_fault_is_found_by_halves_and_all_before_it_count(tmp_path: Path):
    words = ["a"] * 20
    words[12] = "bad"
    bed = landed(tmp_path, *words, on_error=OnProcessorError.HALVE)
    assert "at the record 13/0" in stopped(bed)
    assert [row[1] for row in bed.rows() if row[0] == A.shard_id][-1] == 12
    assert bed.state(A) == '{"a":12}'


def test_records_at_fault_go_to_quarantine_and_the_others_count(tmp_path: Path):
    words = ["a"] * 20
    words[3] = words[12] = words[19] = "bad"
    bed = landed(tmp_path, *words, on_error=OnProcessorError.QUARANTINE)
    assert bed.catch_up()[0] == "21 records processed into 18 rows, 3 set aside"
    assert bed.aside().keys() == {4, 13, 20}
    assert "no such word" in bed.aside()[4]
    assert bed.state(A) == '{"a":17}'
    assert bed.processing().settling.is_settled()


def test_records_at_fault_that_follow_each_other_are_done_with_in_one_wave(tmp_path: Path):
    words, rule = ("a", "bad", "bad", "bad"), OnProcessorError.QUARANTINE
    bed = landed(tmp_path, *words, callable="counting:AtShutdown", on_error=rule)
    assert bed.catch_up()[0] == "5 records processed into 2 rows, 3 set aside"
    assert bed.aside().keys() == {2, 3, 4}


def test_prints_harm_nothing(tmp_path: Path):
    bed = landed(tmp_path, "print", "a")
    bed.catch_up()
    assert bed.words() == [("print", 1), ("a", 1), ("other", 1)]


def test_a_processor_that_checkpoints_nothing_is_told_so(tmp_path: Path):
    bed = landed(tmp_path, "a", callable="counting:NeverCheckpoints")
    assert "checkpointed none of them" in stopped(bed)
    assert bed.table().load().positions.of(A) is None


def test_only_what_is_checkpointed_counts_and_the_rest_comes_again(tmp_path: Path):
    bed = landed(tmp_path, *"abcde", callable="counting:UpToTheFirst", records=2)
    processing = bed.processing()
    first = next(processing.waves())
    assert (first.rows, first.is_last) == (3, False)
    assert bed.words() == [("a", 1), ("b", 1), ("other", 1)]
    bed.catch_up()
    assert bed.words() == [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("other", 1)]


def test_a_mark_never_stands_inside_of_a_kinesis_record(tmp_path: Path):
    bed = ProcessorBed(tmp_path, records=1)
    word = f"inner:{tmp_path}/tried"
    bed.land(A, {1: b"a"}, subs=2)
    bed.land(A, {2: word.encode()}, subs=3)
    assert "at the record 2/1" in stopped(bed)
    # The position 2/0 would mean the whole record.
    assert bed.words() == [("a", 1), ("a", 2)]
    bed.catch_up()
    assert bed.words() == [("a", 1), ("a", 2), (word, 1), (word, 2), (word, 3)]


def test_rows_that_dont_fit_the_schema_are_an_error_of_the_call(tmp_path: Path):
    assert "the schema has no column letter (it has word, total)" in stopped(
        landed(tmp_path, "a", callable="counting:NoRows")
    )


def test_a_wave_that_another_run_has_overtaken_leaves_neither_rows_nor_state(tmp_path: Path):
    bed = landed(tmp_path, "a", "b")

    def race(arrow: str) -> None:
        if arrow == "staged":
            bed.catch_up()

    with pytest.raises(Overtaken):
        bed.processing(on_step=race).wave()
    assert bed.words() == [("a", 1), ("b", 1), ("other", 1)]
    assert bed.state(A) == '{"a":1,"b":1}'


def test_small_waves_give_the_same_rows(tmp_path: Path):
    bed = ProcessorBed(tmp_path)
    for number in range(1, 7):
        bed.land(A, {number: b"a"})
    assert len(bed.catch_up(limits=WaveLimits(2, 2**30))) == 3
    assert bed.words() == [("a", number) for number in range(1, 7)]


def test_a_state_that_no_ledger_tells_is_refused(tmp_path: Path):
    bed = landed(tmp_path, "a")
    bed.catch_up()
    position = bed.table().load().positions.of(A)
    with pytest.raises(ChainBroken, match="no ledger of the processor's table tells the state"):
        states_at({A: position}, _cut, lambda _: (), redrives=Positions())
    # The lineage table has the ledgers of snapshots that have expired.
    entries = [LedgerEntry(1, 1, NOON, page) for page in reversed(list(bed.table().pages()))]
    assert states_at({A: position, B: None}, _cut, lambda _: entries, redrives=Positions()) == {
        A: WaveBefore('{"a":1}', 1),
        B: WaveBefore(),
    }


def test_a_state_is_that_of_the_range_that_ends_at_the_position():
    # Newest first. Only a processor's own ranges have a state, and a table that was set back has the older one.
    pages = [
        LedgerPage((a_range(2, "newer"), a_range(1, "of a person", kind=Kind.REPOSITION))),
        LedgerPage((a_range(1, "older"),)),
    ]
    assert states_at({A: Position(1)}, lambda: pages, lambda _: (), redrives=Positions()) == {
        A: WaveBefore("older", 1)
    }


def test_a_state_is_that_of_the_last_redrive_that_gave_records_of_the_shard():
    """Each way in which ledgers are read gives the same: of main's snapshots, and of the lineage table's."""
    later, last, untried, wave = (
        LedgerPage((a_redrive(4, "of later"),)),
        LedgerPage((a_redrive(2, "redriven"),)),
        LedgerPage((a_redrive(3, "", decides=False),)),
        LedgerPage((a_range(1, "of the wave"),)),
    )
    newest = [later, untried, last, wave]
    redrives = Positions(shards={chain_of(A): Position(3)})
    wanted = {A: WaveBefore("redriven", 1)}
    assert states_at({A: Position(1)}, lambda: newest, lambda _: (), redrives=redrives) == wanted
    entries = [LedgerEntry(1, 1, NOON, page) for page in reversed(newest)]
    assert states_at({A: Position(1)}, _cut, lambda _: entries, redrives=redrives) == wanted
    # A wave has gone on with the state since.
    newest = [LedgerPage((a_range(5, "newer"),)), *newest]
    entries = [LedgerEntry(1, 1, NOON, page) for page in reversed(newest)]
    for_main = states_at({A: Position(5)}, lambda: newest, lambda _: (), redrives=redrives)
    for_lineage = states_at({A: Position(5)}, _cut, lambda _: entries, redrives=redrives)
    assert for_main == for_lineage == {A: WaveBefore("newer", 5)}


def a_redrive(number: int, state: str, *, decides: bool = True) -> Range:
    account = ProcessorAccount(Accounting(1, 1, 0), state or None, decides=decides).text()
    return Range(
        Kind.REDRIVEN, chain_of(A), None, Position(number), run="r", claim="r", rows=7, account=account
    )


def a_range(upto: int, state: str, *, kind: Kind = Kind.PROCESSED) -> Range:
    account = ProcessorAccount(Accounting(1, 1, 0), state).text()
    return Range(kind, A, None, Position(upto), run="r", claim="r", rows=upto, account=account)


def _cut() -> Iterator[LedgerPage]:
    raise ChainBroken("the history was cut")


def test_code_that_isnt_there_makes_no_table(tmp_path: Path):
    bed = landed(tmp_path, "a", callable="no_such_module:rows")
    with pytest.raises(BadSetting, match="there is no module no_such_module for the processor words"):
        bed.catch_up()
    assert not bed.table().exists()


def test_a_processor_in_a_shell_works_by_the_same_lines(tmp_path: Path):
    script = Path(__file__).parent / "users_code" / "words.sh"
    bed = landed(tmp_path, "a", "b", callable=None, command=f"sh {script}", schema="count BIGINT")
    bed.catch_up()
    assert sorted(row["count"] for row in read.rows(bed.table(), ("count",)).to_pylist()) == [1, 2]


def test_an_error_that_amazon_kclpy_swallows_stops_the_shard(tmp_path: Path):
    script = Path(__file__).parent / "users_code" / "swallowing.py"
    bed = landed(tmp_path, "a", callable=None, command=f"{sys.executable} {script}", schema="")
    assert "processRecords raised out of order" in stopped(bed)
    assert bed.table().load().positions.of(A) is None


@pytest.mark.parametrize("children", [None, (CHILD,)])
def test_a_processor_has_no_part_in_a_shard_that_a_person_lets_stand(
    tmp_path: Path, children: tuple[str, ...] | None
):
    """A person has accepted that a row landed behind the position of a shard at rest. The processor's state and the rows that it has
    given stay as they are, also where the shard has ended."""
    bed = ProcessorBed(tmp_path, callable="counting:Words")
    bed.land(A, {1: b"a"})
    bed.land(A, {3: b"c"}, ended=children)
    bed.catch_up()
    words = bed.words()
    bed.lake.lake.rollback(1)
    bed.land(A, {2: b"b", 3: b"c"}, ended=children)
    with pytest.raises(WrongShape):
        bed.catch_up()
    processing = bed.processing()
    assert processing.checking is not None
    accepting = replace(processing, checking=replace(processing.checking, accepts_difference=True))
    assert accepting.wave().snapshot is not None
    assert bed.words() == words
    assert bed.processing().wave().snapshot is None
    if not children:
        bed.land(A, {}, ended=[CHILD])
        bed.catch_up()
        assert bed.words() == [*words, ("ended", 2)]
        # The rows of the end come after those that the last record has given.
        rows = read.rows(bed.table(), ("sequence_number", "row_number")).to_pylist()
        assert len({tuple(row.values()) for row in rows}) == len(rows)
