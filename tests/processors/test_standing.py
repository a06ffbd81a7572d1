"""Where a processor stands: how far it is behind the lake table, where it has stopped and why, and what can't be loaded."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from headrace.pipeline.doctor.case import Case, LiveCase
from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.doctor.processors import processors_can_be_loaded, processors_keep_up
from headrace.pipeline.errors import ProcessorStopped
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.processors.standing import Standing, standing_of
from headrace.pipeline.processors.stops import stops_after
from headrace.pipeline.processors.trial import why_not_loaded
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.file import parse_settings
from tests.processors.beds import ProcessorBed
from tests.typed.parsings import A, B

if TYPE_CHECKING:
    from headrace.pipeline.app.ports import Ports


SETTINGS = "{application: shop, streams: [{name: orders}], landing: {home: lake}}"


class PortsOf:
    """The ports of an application whose only processor is the bed's."""

    def __init__(self, bed: ProcessorBed) -> None:
        self._bed = bed

    def processing(self, _processor: ProcessorSettings, _run: str) -> ProcessorPorts:
        return self._bed.ports()


def standing(bed: ProcessorBed) -> Standing:
    return standing_of(bed.settings, bed.ports())


def stopped(bed: ProcessorBed) -> None:
    with pytest.raises(ProcessorStopped):
        bed.catch_up()


@pytest.fixture
def bed(tmp_path: Path) -> ProcessorBed:
    """Stopped at the second record of A, and at no record of B."""
    bed = ProcessorBed(tmp_path, records=1)
    bed.land(A, {1: b"a", 2: b"bad"})
    bed.land(B, {10: b"other"})
    stopped(bed)
    return bed


def test_a_stop_is_told_to_whoever_looks_at_the_table_later(bed: ProcessorBed):
    (shard,) = standing(bed).stopped
    assert shard.key == A
    assert shard.stopped == "at the record 2/0: processRecords raised ValueError: no such word"
    assert "1 of them behind the lake table" in str(standing(bed))
    assert str(standing(bed)).endswith("stopped at 1")
    # Its traceback is in the run, and the sentence is one line.
    assert str(shard).endswith("no such word")


def test_a_stop_at_the_first_record_of_a_shard_is_told_too(tmp_path: Path):
    bed = ProcessorBed(tmp_path)
    bed.land(A, {1: b"bad"})
    assert standing(bed).stopped == ()
    stopped(bed)
    assert [shard.key for shard in standing(bed).stopped] == [A]


def test_a_stop_is_of_the_past_once_the_processor_has_gone_on(bed: ProcessorBed):
    bed.settings = replace(bed.settings, callable="counting:Lenient")
    bed.catch_up()
    assert standing(bed).stopped == ()
    assert not any(shard.is_behind for shard in standing(bed).shards)


def test_stops_at_two_shards_are_both_told(bed: ProcessorBed):
    bed.land(B, {11: b"die"})
    stopped(bed)
    assert [shard.key for shard in standing(bed).stopped] == [A, B]


def test_a_run_that_didnt_come_to_a_shard_leaves_its_stop_told_while_it_holds(bed: ProcessorBed):
    positions, known = bed.table().load().positions, bed.ports().stops.known()
    assert [stop.key for stop in stops_after(known, {B: "another reason"}, positions)] == [B, A]
    past = [replace(stop, place="1 0 False earlier") for stop in known]
    assert [stop.key for stop in stops_after(past, {B: "another reason"}, positions)] == [B]


def test_the_doctor_names_a_stopped_shard_and_the_code_that_cant_be_loaded(bed: ProcessorBed):
    loaded = parse_settings(SETTINGS, {}, name="headrace.yaml")
    settings = replace(loaded.settings, processors=(replace(bed.settings, callable="broken:rows"),))
    case = Case(Path("headrace.yaml"), replace(loaded, settings=settings), None)
    (load,) = processors_can_be_loaded(case)
    assert load.health is Health.ILL
    assert "the code of words, broken:rows, can't be loaded on this host" in load.sentence
    stop, behind = processors_keep_up(LiveCase(case, settings, cast("Ports", PortsOf(bed))))
    assert stop.health is Health.ILL
    assert "words has stopped at 1 shard: orders/shardId" in stop.sentence
    assert "no such word" in stop.sentence
    assert "1 of them behind the lake table" in behind.sentence


def test_code_that_can_be_loaded_gets_no_call(tmp_path: Path):
    bed = ProcessorBed(tmp_path)
    assert why_not_loaded(bed.settings) == ""
    assert why_not_loaded(replace(bed.settings, callable="counting:Words")) == ""
    assert why_not_loaded(replace(bed.settings, callable=None, command="sh words.sh")) == ""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("no_such_module:rows", "there is no module no_such_module"),
        ("counting:nothing", "has no attribute 'nothing'"),
        ("broken:rows", "No module named 'not_installed'"),
    ],
)
def test_code_that_cant_be_loaded_is_told_with_the_reason(tmp_path: Path, code: str, why: str):
    assert why in why_not_loaded(replace(ProcessorBed(tmp_path).settings, callable=code))


def test_a_program_that_isnt_there_is_told(tmp_path: Path):
    settings = replace(ProcessorBed(tmp_path).settings, callable=None, command="no-such-program --fast")
    assert why_not_loaded(settings) == "there is no program no-such-program on this host"
