"""Where a task's data files go: the file system, the folder, and the columns with the table's field ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.lake.files.aws_access import SMALL_FILES, keys_of
from headrace.pipeline.lake.files.private_files import PrivateFiles
from headrace.pipeline.lake.files.sort_key import with_sort_key_column
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.task_identity import TaskIdentity


@dataclass(frozen=True, slots=True)
class StagePlace:
    files: fs.FileSystem
    root: str
    spec: StagingSpec
    schema: pa.Schema
    """The columns of the files, each with the table's field id: Headrace's in the table's order, and in a compaction
    all others too."""

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def uri(self, name: str) -> str:
        """The path by which the table lists the file; it begins as the table's location does, which may have a
        scheme such as `s3://`.
        """
        return f"{self.spec.location.rstrip('/')}/{name}"

    def create(self, name: str) -> Any:
        """An output stream to a new file."""
        # Not on S3, which has no folders: pyarrow would leave an empty object there.
        if isinstance(self.files, fs.LocalFileSystem):
            self.files.create_dir(self.path(name).rpartition("/")[0], recursive=True)
        return self.files.open_output_stream(self.path(name))


def place_of(spec: StagingSpec, read: pa.Schema) -> StagePlace:
    """The place for files of rows that are read with the schema `read` and get sort keys."""
    files, root = file_system(spec)
    return StagePlace(files, root, spec, _schema_with_ids(with_sort_key_column(read), spec))


def _schema_with_ids(read: pa.Schema, spec: StagingSpec) -> pa.Schema:
    """Headrace's columns in the table's order, each with the table's field id, by which Iceberg's readers find columns.
    Columns that a user added to the table aren't written, and read as null.
    """
    if unknown := set(read.names) - {name for name, _ in spec.field_ids}:
        raise WrongShape(
            f"the lake table lacks columns that Headrace writes: {', '.join(sorted(unknown))}. Nothing was staged; restore these "
            "columns"
        )
    return pa.schema(
        read.field(name).with_metadata({b"PARQUET:field_id": str(number).encode()})
        for name, number in spec.field_ids
        if name in read.names
    )


def file_system(spec: StagingSpec) -> tuple[fs.FileSystem, str]:
    location = spec.location.rstrip("/")
    scheme, separator, rest = location.partition("://")
    local = PrivateFiles() if spec.private else fs.LocalFileSystem()
    if not separator:
        return local, location
    if scheme == "file":
        return local, fs.FileSystem.from_uri(location)[1]
    if scheme in {"s3", "s3a"}:
        return _s3(dict(spec.options), spec.identity), rest
    raise BadSetting(
        f"data files can't be written to {location!r}: Headrace writes to paths, file://, s3:// and s3a:// only"
    )


def _s3(options: Mapping[str, str], identity: TaskIdentity | None) -> fs.FileSystem:
    """The S3 file system. Who asks, where and in which region comes from the driver; the environment of this host
    doesn't count."""
    chosen: dict[str, Any] = dict(SMALL_FILES)
    if region := options.get("region"):
        chosen["region"] = region
    if endpoint := options.get("endpoint"):
        chosen["endpoint_override"] = endpoint
        chosen["scheme"] = endpoint.partition("://")[0] if "://" in endpoint else "https"
    chosen |= {"anonymous": True} if identity is None else keys_of(identity)
    return fs.S3FileSystem(**chosen)
