"""The port of Spark's tasks without Spark: the same functions run one after another in this process."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.tasks import Job, Tasks, Work


@dataclass
class LocalTasks(Tasks):
    clock: Clock
    cores: int = 2
    jobs: list[Job] = field(default_factory=list)
    """The jobs that were run."""

    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        self.jobs.append(job)
        return [work(number, self.clock.now) for number in range(count)]
