"""Any order of landings, waves, deaths between two steps, and runs at the same time: each record counts once, and in order."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Overtaken
from headrace.pipeline.typed.values import WaveLimits
from tests.processors.beds import ProcessorBed, dying
from tests.typed.parsings import A, B, Killed

CHILD = ShardKey(A.stream, "shardId-000000000007")

lands = st.tuples(st.just("land"), st.sampled_from([A, B]), st.integers(1, 4))
ends = st.tuples(st.just("end"))
dies = st.tuples(st.just("die"), st.sampled_from(["planned", "staged", "committed"]))
races = st.tuples(st.just("race"), st.sampled_from(["planned", "staged"]))
waves = st.tuples(st.just("wave"))


class History:
    def __init__(self, folder: Path, code: str) -> None:
        self.bed = ProcessorBed(folder, callable=code, records=2)
        self.words: dict[ShardKey, list[str]] = {A: [], B: []}
        self.number = 0
        self.limits = WaveLimits(3, 2**30)

    def land(self, key: ShardKey, count: int) -> None:
        if key == A and CHILD in self.words:
            key = CHILD
        parents = [A.shard_id] if key == CHILD and not self.words[CHILD] else []
        payloads = {}
        for _ in range(count):
            self.number += 1
            self.words[key].append("ab"[self.number % 2])
            payloads[self.number] = self.words[key][-1].encode()
        self.bed.land(key, payloads, parents=parents)

    def end(self) -> None:
        if CHILD not in self.words:
            self.bed.land(A, {}, ended=[CHILD.shard_id])
            self.words[CHILD] = []

    def die(self, place: str) -> None:
        try:
            self.bed.processing(limits=self.limits, on_step=dying(place)).wave()
        except Killed:
            return

    def race(self, place: str) -> None:
        def overtake(arrow: str) -> None:
            if arrow == place:
                self.wave()

        try:
            self.bed.processing(limits=self.limits, on_step=overtake).wave()
        except Overtaken:
            return

    def wave(self) -> None:
        self.bed.processing(limits=self.limits).wave()

    def expected(self) -> list[tuple[str, str, int]]:
        rows: list[tuple[str, str, int]] = []
        for key in sorted(self.words):
            totals: Counter[str] = Counter()
            for word in self.words[key]:
                totals[word] += 1
                rows.append((key.shard_id, word, totals[word]))
        return rows


# Each example has a catalog and starts processes: a fifth of the profile's examples take as long as other tests.
@settings(max_examples=max(2, settings().max_examples // 5), deadline=None)
@given(
    st.lists(st.one_of(lands, ends, dies, races, waves), min_size=3, max_size=7),
    st.sampled_from(["counting:rows", "counting:AtShutdown"]),
)
def test_each_record_counts_once_whatever_dies_and_whoever_runs_beside(
    steps: list[tuple[Any, ...]], code: str
):
    with TemporaryDirectory() as folder:
        history = History(Path(folder), code)
        history.land(A, 1)
        for step, *arguments in steps:
            getattr(history, step)(*arguments)
        history.bed.catch_up(limits=history.limits)
        assert [(shard, word, total) for shard, _, word, total in history.bed.rows()] == history.expected()
