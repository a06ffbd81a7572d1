"""What the Spark format `headrace` knows of its application, and the ports that it makes from that.

The process that registers the format reads the settings and fixes the AWS identity. Spark then plans a query in a
Python process of its own, beside Spark's driver, and maybe on another host with another environment. AWS keys,
profiles and endpoints in that environment aren't used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.pipeline.aws.clients.access import KinesisAccess, role_at
from headrace.pipeline.core.landing.pace import FIRST_PAGE_OF_A_WINDOW, window_share
from headrace.pipeline.errors import BadSetting, HeadraceError, Unknown
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.choices import Aggregates
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in
from headrace.pipeline.source.lake_range import LakeRange
from headrace.pipeline.source.options import RangeOptions
from headrace.pipeline.source.stream_range import StreamRange
from headrace.pipeline.task_identity import DriverIdentity, TaskIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceApplication:
    """What the process that registered the Spark format knows of its application. It can be pickled. Spark's
    driver gets it, and its tasks don't: the catalog's properties may have a password.
    """

    settings: Settings
    access: KinesisAccess | str
    """A text says why this process can't ask Kinesis. The lake table may be readable all the same."""
    identity: TaskIdentity | str
    """Who asks the catalog and S3."""
    reader: TaskIdentity | str
    """Who asks Kinesis."""
    """A text says why this process has no credentials."""

    def pages(self) -> Pages:
        """The reader of Kinesis for Spark's tasks. It uses the smaller share of shards' limits that windows have."""
        from headrace.pipeline.aws.reading.pages import KinesisPages

        return KinesisPages(
            access=self._kinesis(),
            share=window_share(self.settings.wave.shard_share),
            first_page=FIRST_PAGE_OF_A_WINDOW,
            wire=self.settings.wire,
        )

    def stream_range(self, options: RangeOptions) -> StreamRange:
        stream = self._stream(options.stream)
        if is_dynamodb(stream):
            raise BadSetting(
                f"{stream} is the stream of a DynamoDB table, which is no data frame of Kinesis: nothing was read. Read the lake "
                "table instead, which has its records once a wave has landed them"
            )
        return StreamRange(
            source=_shard_source(self._kinesis()),
            stream=stream,
            options=options,
            unpack=self.settings.landing.aggregates is not Aggregates.KEEP,
        )

    def lake_range(self, options: RangeOptions) -> LakeRange:
        from headrace.pipeline.clock import SystemClock
        from headrace.pipeline.lake.table.catalog import embedded_catalog
        from headrace.pipeline.lake.table.lake_table import IcebergTable
        from headrace.pipeline.lineage.table import IcebergLineage
        from headrace.pipeline.typed.source import IcebergSource
        from headrace.pipeline.windows.table import IcebergWindows

        landing, private = self.settings.landing, self.settings.private_files
        catalog = landing.catalog or embedded_catalog(Path(landing.home), private=private)
        table = IcebergTable(
            self._with_aws(catalog),
            landing.table,
            state=landing.state or str(Path(landing.home).resolve() / "state"),
            clock=SystemClock(),
            private=private,
            aggregates=landing.aggregates,
            identity=self._identity,
        )
        return LakeRange(
            table=table,
            files=IcebergSource(table),
            lineage=IcebergLineage(table),
            windows=lambda: IcebergWindows(table),
            options=options,
        )

    def _kinesis(self) -> KinesisAccess:
        if isinstance(self.access, str):
            raise BadSetting(self.access)
        if isinstance(self.reader, str):
            raise BadSetting(self.reader)
        return replace(self.access, identity=self.reader)

    def _identity(self) -> TaskIdentity:
        if isinstance(self.identity, str):
            raise BadSetting(self.identity)
        return self.identity

    def _stream(self, name: str | None) -> str:
        configured = [stream.name for stream in self.settings.streams]
        if name is not None:
            # A stream by its own name, and one that the settings name by its ARN.
            return next((given for given in configured if name_in(given) == name), name)
        if len(configured) == 1:
            return configured[0]
        raise Unknown(
            f"the settings have {len(configured)} streams, and a data frame that reads from Kinesis has the records of one. Nothing was read; name it by "
            "the option stream"
        )

    def _with_aws(self, catalog: Mapping[str, str]) -> dict[str, str]:
        """The catalog's properties, with the keys of the registering process where nothing else names who asks."""
        from headrace.pipeline.lake.files.aws_access import with_aws

        properties = with_aws(catalog, self.settings.aws)
        keys = None if isinstance(self.identity, str) else self.identity.keys
        # What the catalog's properties say about who asks was said for this very table, and counts
        # before the keys of whoever registered the source.
        if keys is None or any("access-key-id" in name or "role-arn" in name for name in properties):
            return properties
        stated = {
            "client.access-key-id": keys.access_key,
            "client.secret-access-key": keys.secret_key,
            "client.session-token": keys.token,
        }
        return {**properties, **{name: value for name, value in stated.items() if value is not None}}


def application_of(settings: Settings) -> SourceApplication:
    """The values of this process for the Spark format of the application."""
    from headrace.pipeline.aws.clients.clients import kinesis_access

    access, kinesis = _or_why(lambda: kinesis_access(settings.aws)), settings.aws.of("kinesis")
    # A data frame of Kinesis is of one stream, whose settings may name a role.
    roles = {stream.role: kinesis.by(stream.role, stream.external_id) for stream in settings.streams}
    place = next(iter(roles.values())) if len(roles) == 1 else kinesis
    role = role_at(place, None if isinstance(access, str) else access.region)
    return SourceApplication(
        settings=settings,
        access=access,
        # A process without credentials may still register the source: whether they are needed shows
        # only by the query.
        identity=_or_why(DriverIdentity(settings.aws.profile).now),
        reader=_or_why(DriverIdentity(place.profile, role).now),
    )


def _or_why(make: Any) -> Any:
    try:
        return make()
    except HeadraceError as error:
        return str(error)


def _shard_source(access: KinesisAccess) -> ShardSource:
    from headrace.pipeline.aws.clients.task_client import client_of_service
    from headrace.pipeline.aws.reading.kinesis import KinesisSource

    retries = {"mode": "standard", "total_max_attempts": 3}
    return KinesisSource(client_of_service(access, "kinesis", retries=retries))
