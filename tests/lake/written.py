"""Data files written as a staging task writes them, for tests that need staged files and no reading."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.files.stage_files import TaskFiles
from headrace.pipeline.ports.staging import StagingSpec


def write_files(
    rows: Mapping[ShardKey, Sequence[pa.RecordBatch]],
    spec: StagingSpec,
    *,
    now: Callable[[], datetime],
    fresh: Callable[[], str],
) -> tuple[StagedFile, ...]:
    files = TaskFiles(spec, now=now, fresh=fresh)
    for key, pages in rows.items():
        for page in pages:
            files.add(key, page)
    return files.finish()
