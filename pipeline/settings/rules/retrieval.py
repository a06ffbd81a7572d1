"""Rules of the consumers by which streams are read with enhanced fan-out. Pure functions.

Two readers with the same consumer end each other's subscriptions every five seconds. A stream may have three kinds
of readers: the application that lands records, processors that are applications of their own, and a KCL fleet that one of these joins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.choices import ProcessorMode
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.settings.processor_application import application_settings
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.stream_names import name_in

# Kinesis's rule for names of consumers.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_FOUND = "the streams that are found"


@dataclass(frozen=True, slots=True)
class _Reader:
    """An application of these settings, which reads streams."""

    who: str
    settings: Settings
    """Those of the application."""
    failover_key: str
    processor_key: str = ""
    """Empty for the application that lands records."""

    @property
    def is_processor(self) -> bool:
        return bool(self.processor_key)

    @property
    def entries(self) -> Iterator[tuple[str, str, StreamSettings | DiscoverySettings]]:
        """For each entry that names or finds streams: what it is called, the setting with its consumer, and the entry."""
        for n, stream in enumerate(self.settings.streams):
            yield name_in(stream.name), self._consumer_key(f"streams.{n}"), stream
        yield _FOUND, self._consumer_key("discovery"), self.settings.discovery

    def _consumer_key(self, key: str) -> str:
        return f"{self.processor_key or key}.consumer"

    @property
    def origins(self) -> tuple[str, ...]:
        """The settings that name the application: a mistake in them is told before one that follows from it."""
        return (f"{self.processor_key}.application",) if self.is_processor else ()


def retrieval_rules(settings: Settings) -> Iterator[Broken]:
    readers = tuple(_readers(settings))
    fleets = {
        (stream, reader.settings.application): reader.failover_key
        for reader in readers
        # KCL's workers read by a consumer of their application's name, which these settings don't
        # have.
        if reader.settings.is_shared
        for stream, _, _ in reader.entries
    }
    taken: dict[tuple[str, str], tuple[str, str]] = {}
    """Who reads a stream by a consumer, and the setting that says so."""
    for reader in readers:
        yield from _without_fan_out(reader)
        for stream, key, entry in reader.entries:
            name = reader.settings.consumer_of(entry)
            if name is None:
                continue
            if broken := _broken(reader, stream, key, name, fleets=fleets, taken=taken):
                yield broken
            taken.setdefault((stream, name), (reader.who, key))


def _readers(settings: Settings) -> Iterator[_Reader]:
    yield _Reader("the application that lands records", settings, "kcl.failover")
    for n, processor in enumerate(settings.processors):
        if processor.mode is ProcessorMode.APPLICATION:
            own, key = application_settings(settings, processor), f"processors.{n}"
            yield _Reader(f"the processor {processor.name}", own, f"{key}.failover", key)


def _without_fan_out(reader: _Reader) -> Iterator[Broken]:
    """A consumer for streams that are polled."""
    entries = tuple(reader.entries)
    if not reader.is_processor:
        for _, key, entry in entries:
            if entry.consumer is not None and reader.settings.consumer_of(entry) is None:
                yield Broken(
                    key,
                    "is given, but retrieval is polling: remove it, or read by retrieval: fanout",
                    also=(key.replace(".consumer", ".retrieval"),),
                )
    elif entries[0][2].consumer is not None and not any(
        reader.settings.consumer_of(e) for _, _, e in entries
    ):
        yield Broken(
            entries[0][1],
            "is given, but no stream that it reads has retrieval: fanout: remove it, or read one by retrieval: fanout",
            also=("streams", "discovery", *reader.origins),
        )


def _broken(
    reader: _Reader,
    stream: str,
    key: str,
    name: str,
    *,
    fleets: dict[tuple[str, str], str],
    taken: dict[tuple[str, str], tuple[str, str]],
) -> Broken | None:
    if not _NAME.fullmatch(name):
        return Broken(key, f"is {name!r}; allowed: 1 to 128 of A-Z a-z 0-9 _ . -", also=reader.origins)
    if (stream, name) in fleets:
        return Broken(
            key,
            f"is {name!r}, which is the consumer of the KCL fleet of that name: two readers with the same consumer end each "
            f"other's subscriptions every five seconds. Give Headrace a consumer of its own ({name}-headrace)",
            also=(fleets[stream, name], *reader.origins),
        )
    if reader.is_processor and (stream, name) in taken:
        other, other_key = taken[stream, name]
        return Broken(
            key,
            f"is {name!r}, by which {other} reads {stream}, too: two readers with the same consumer end each "
            f"other's subscriptions every five seconds. Give this processor a consumer of its own ({name}-2), or {other} another one by {other_key}",
            also=(other_key, *reader.origins),
        )
    return None
