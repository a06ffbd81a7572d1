"""pyiceberg's access to files (its FileIO), with private local files and fewer requests to S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pyarrow.fs import FileSystem, S3FileSystem
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO

from headrace.pipeline.lake.files.aws_access import SMALL_FILES, keys_of, profile_of_s3
from headrace.pipeline.lake.files.private_files import PrivateFiles
from headrace.pipeline.task_identity import named

_PRIVATE = "headrace.private-files"


class HeadraceFileIO(PyArrowFileIO):
    """The FileIO that pyiceberg creates by the class name in the catalog's properties. It makes local files
    private, and sends fewer requests to S3.
    """

    def _initialize_local_fs(self) -> FileSystem:
        return PrivateFiles() if self.properties.get(_PRIVATE) == "true" else super()._initialize_local_fs()

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        files = super()._initialize_s3_fs(netloc)
        # No property of pyiceberg sets this option. So a second file system is made, from the options that pickle would
        # save of the first.
        _, (options,) = cast("tuple[Any, tuple[dict[str, Any]]]", files.__reduce__())
        profile = profile_of_s3(self.properties)
        return S3FileSystem(**{**options, **SMALL_FILES, **(keys_of(named(profile)) if profile else {})})


def with_own_io(properties: Mapping[str, str], location: str, *, private: bool) -> dict[str, str]:
    """The catalog's properties with Headrace's FileIO, for a location on this machine or on S3. A FileIO that the
    user has chosen is kept.
    """
    is_s3 = location.startswith("s3") or properties.get("type") == "glue"
    # A FileIO that a person has chosen may be the only one that reaches the storage.
    if PY_IO_IMPL in properties or not (_is_local(location) or is_s3):
        return dict(properties)
    own = f"{HeadraceFileIO.__module__}.{HeadraceFileIO.__name__}"
    return {**properties, PY_IO_IMPL: own, _PRIVATE: str(private).lower()}


def _is_local(location: str) -> bool:
    """Whether a location is surely a folder on this machine. The warehouse of a REST catalog may be a name that is no
    path."""
    return location.startswith(("/", "file:"))
