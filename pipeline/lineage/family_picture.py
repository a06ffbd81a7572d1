"""A picture of the shards, their parents and their states: as text for Mermaid, and as a drawing. Pure functions of the
ledgers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.ledger.ledger import ParentIs
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.lineage.family_svg import DrawnShard, drawn_name

MOST = 300
"""The most shards in one picture, because nobody can read more. The newest ones are shown."""


@dataclass(frozen=True, slots=True)
class PicturedShard:
    key: ShardKey
    state: str
    """open; ended; waiting: a parent has ended, and no range of the shard has landed; unread: closed before the reading
    began."""
    records: int
    parents: tuple[str, ...]


def pictured(story: Story, stream: StreamId) -> tuple[PicturedShard, ...]:
    """The shards of a stream that the ledgers know, in the order of their ids."""
    parents: dict[str, set[str]] = {}
    states: dict[str, str] = {}
    for key, steps in story.steps.items():
        if key.stream != stream:
            continue
        named = [parent.shard_id for parent in steps[0].range.parents if parent.why is not ParentIs.GONE]
        parents.setdefault(key.shard_id, set()).update(named)
        end = story.end(key)
        states[key.shard_id] = "open" if end is None else "ended"
        for child in () if end is None else end.range.upto.children:
            parents.setdefault(child, set()).add(key.shard_id)
            states.setdefault(child, "waiting")
    every = sorted(parents.keys() | set().union(*parents.values()))
    return tuple(
        PicturedShard(
            ShardKey(stream, shard),
            states.get(shard, "unread"),
            sum(step.range.rows for step in story.of(ShardKey(stream, shard))),
            tuple(sorted(parents.get(shard, ()))),
        )
        for shard in every
    )


def drawn(story: Story) -> list[DrawnShard]:
    """The shards of all streams, for a drawing."""
    streams = sorted({key.stream for key in story.steps})
    return [
        DrawnShard(
            key=f"{stream}/{shard.key.shard_id}",
            name=drawn_name(shard.key, with_stream=len(streams) > 1),
            state=shard.state,
            about=f"{shard.state}, {counted(shard.records, 'record')}",
            parents=tuple(f"{stream}/{parent}" for parent in shard.parents),
        )
        for stream in streams
        for shard in pictured(story, stream)
    ]


def mermaid(story: Story, *, most: int = MOST) -> Iterator[str]:
    """The lines of a flowchart with all streams."""
    yield "flowchart LR"
    for place, stream in enumerate(sorted({key.stream for key in story.steps})):
        shards = pictured(story, stream)
        yield f'  subgraph s{place}["{stream}"]'
        if len(shards) > most:
            yield f"    %% {counted(len(shards) - most, 'older shard')} left out"
        # The stream's place is a part of the node's name, because each stream numbers its shards from 0.
        shown = {shard.key.shard_id: f"s{place}n{i}" for i, shard in enumerate(shards[-most:])}
        yield from _of_stream(shards[-most:], shown)
        yield "  end"
    yield "  classDef open fill:#dff5e1,stroke:#2e7d32"
    yield "  classDef ended fill:#eeeeee,stroke:#757575"
    yield "  classDef unread fill:#ffffff,stroke:#757575,stroke-dasharray:2"
    yield "  classDef waiting fill:#fff4d6,stroke:#b26a00,stroke-dasharray:4"


def _of_stream(shards: tuple[PicturedShard, ...], nodes: Mapping[str, str]) -> Iterator[str]:
    for shard in shards:
        label = f"{shard.key.shard_id}<br/>{shard.state}, {counted(shard.records, 'record')}"
        # In Mermaid, `:::` gives a node the class that `classDef` describes at the end.
        yield f'    {nodes[shard.key.shard_id]}["{label}"]:::{shard.state}'
    for shard in shards:
        for parent in shard.parents:
            if parent in nodes:
                yield f"    {nodes[parent]} --> {nodes[shard.key.shard_id]}"
