"""Checks: whether the record processors of the settings can be loaded, and whether they keep up with the lake table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.doctor.case import Case, LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.settings.targets import landed_processors, processor_applications

_NAME = "processors"


def processors_can_be_loaded(case: Case) -> Iterator[Diagnosis]:
    """Whether each processor can be loaded. That is tried in a process of its own, which gets no record."""
    if case.settings is None or not case.settings.processors:
        return
    from headrace.pipeline.processors.trial import why_not_loaded

    for processor in case.settings.processors:
        code = processor.callable or processor.command
        if why := why_not_loaded(processor):
            yield Diagnosis(
                _NAME,
                Health.ILL,
                f"the code of {processor.name}, {code}, can't be loaded on this host: {why}",
                "Correct the code, or its entry in the settings: until then its runs fail, and no record is passed over",
            )
        else:
            yield Diagnosis(_NAME, Health.WELL, f"the code of {processor.name}, {code}, can be loaded")


def processors_keep_up(live: LiveCase) -> Iterator[Diagnosis]:
    from headrace.pipeline.app.application_wiring import application_standing
    from headrace.pipeline.processors.standing import standing_of

    for processor in landed_processors(live.settings):
        landed = standing_of(processor, live.ports.processing(processor, "doctor"))
        stops = {str(shard.key): shard.stopped for shard in landed.stopped}
        yield from _standing(processor.name, stops, str(landed))
    for processor in processor_applications(live.settings):
        rows = application_standing(live.settings, processor)
        yield from _standing(processor.name, rows.stops, str(rows))


def _standing(name: str, stops: Mapping[str, str], sentence: str) -> Iterator[Diagnosis]:
    """`stops`: why the processor has stopped, by shard."""
    if stops:
        shards = ". ".join(f"{shard}: {why}" for shard, why in stops.items())
        yield Diagnosis(
            _NAME,
            Health.ILL,
            f"{name} has stopped at {counted(len(stops), 'shard')}: {shards}",
            "Correct its code or its settings; the next run goes on from there",
        )
    yield Diagnosis(_NAME, Health.WELL, sentence)
