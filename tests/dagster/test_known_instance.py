"""The instance that a code server keeps from tick to tick, and what is remembered of Dagster's databases."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.instance.ref import InstanceRef

from headrace.resources.instance import KeptInstance, KnownInstance
from tests.dagster.fixtures import MakeInstance


@dataclass
class Place:
    """Dagster's partitions, and a clock that the test moves."""

    instance: dg.DagsterInstance
    now: float = 1000.0
    looks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = KnownInstance(self.instance, monotonic=lambda: self.now)

    def add(self, *keys: str, name: str = "shards") -> None:
        self.instance.add_dynamic_partitions(name, keys)


@pytest.fixture
def place(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> Place:
    instance = make_instance()
    made = Place(instance)
    look = instance.get_dynamic_partitions

    def noting(name: str) -> Sequence[str]:
        made.looks.append(name)
        return look(name)

    monkeypatch.setattr(instance, "get_dynamic_partitions", noting)
    return made


def test_partitions_that_dagster_has_are_looked_up_once_a_minute(place: Place):
    place.add("a", "b")
    for _ in range(12):
        assert place.known.missing_partitions("shards", ["a", "b"]) == []
        place.now += 5
    assert place.looks == ["shards"]
    place.now += 5
    place.known.missing_partitions("shards", ["a", "b"])
    assert place.looks == ["shards"] * 2


def test_missing_partitions_are_named_in_the_order_of_the_keys_until_dagster_has_them(place: Place):
    place.add("b")
    for _ in range(2):
        assert place.known.missing_partitions("shards", ["c", "b", "a"]) == ["c", "a"]
    place.add("a", "c")
    assert place.known.missing_partitions("shards", ["c", "b", "a"]) == []


def test_a_new_key_is_looked_up_at_once(place: Place):
    place.add("a")
    assert place.known.missing_partitions("shards", ["a"]) == []
    place.add("b")
    assert place.known.missing_partitions("shards", ["a", "b"]) == []


def test_a_partition_that_a_person_deletes_is_missing_again_a_minute_later(place: Place):
    place.add("a")
    assert place.known.missing_partitions("shards", ["a"]) == []
    place.instance.delete_dynamic_partition("shards", "a")
    place.now += 61
    assert place.known.missing_partitions("shards", ["a"]) == ["a"]


def test_partitions_of_two_applications_are_told_apart(place: Place):
    place.add("a")
    assert place.known.missing_partitions("shards", ["a"]) == []
    assert place.known.missing_partitions("other-shards", ["a"]) == ["a"]


@pytest.fixture
def refs(tmp_path: Path) -> Iterator[tuple[InstanceRef, InstanceRef]]:
    with ExitStack() as stack:
        homes = [tmp_path / name for name in ("one", "two")]
        for home in homes:
            home.mkdir()
        one, two = (stack.enter_context(dg.DagsterInstance.local_temp(str(home))) for home in homes)
        yield one.get_ref(), two.get_ref()


def test_one_instance_is_kept_until_the_daemon_names_another_one(refs: tuple[InstanceRef, InstanceRef]):
    one, two = (dg.SensorEvaluationContext(instance_ref=ref) for ref in refs)
    kept = KeptInstance()
    first = kept.of(one)
    assert kept.of(one) is first
    assert kept.of(dg.SensorEvaluationContext(instance_ref=refs[0])) is first
    second = kept.of(two)
    assert second is not first
    assert (first.instance.get_ref(), second.instance.get_ref()) == refs
    for each in (first, second):
        each.instance.dispose()
