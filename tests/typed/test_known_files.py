"""What a process remembers of data files that it has looked through."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.values import SourceFile, Survey, SurveyOrder
from tests.lake.samples import StandingClock, a_key
from tests.memory.parse import MemoryRows, MemorySurveyor


@dataclass(frozen=True, kw_only=True)
class OneUnreadable(MemorySurveyor):
    unreadable: str

    def survey(self, order: SurveyOrder) -> Survey:
        if self.unreadable in order.files:
            raise WrongShape("a file can't be read")
        return super().survey(order)


def test_a_file_that_cant_be_read_hides_no_other_file():
    paths = [f"file-{number:03}" for number in range(120)]
    rows = MemoryRows(StandingClock(), {path: ((a_key(1), 1),) for path in paths})
    surveyor = OneUnreadable(source=rows, unreadable=paths[10])
    known, files = KnownFiles(), [SourceFile(path, 1) for path in paths]
    for _ in range(30):
        known.look_through_some(files, surveyor)
    assert [file.path for file in known.described(files) if file.parts is None] == [paths[10]]
