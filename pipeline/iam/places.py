"""The ARNs of the resources of an application: its streams, coordination tables, catalog and folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from headrace.pipeline.aws.leases import lease_item
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.settings.processor_application import applications_of
from headrace.pipeline.settings.stream_names import is_dynamodb
from headrace.pipeline.settings.targets import landed_processors

_STREAM = ":stream/"


@dataclass(frozen=True, slots=True)
class Account:
    partition: str
    """`aws`, or `aws-cn`, `aws-us-gov`, ..., by the region."""
    region: str
    number: str

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.number}:{resource}"


def account_of(settings: Settings, *, number: str | None = None, region: str | None = None) -> Account:
    """The account and region of an application: as given, else as the settings have them."""
    arns = [stream.name.split(":") for stream in settings.streams if stream.name.startswith("arn:")]
    number = number or next((words[4] for words in arns), None)
    region = region or settings.aws.region or next((words[3] for words in arns), None)
    if number is None:
        raise BadSetting(
            "the settings don't say in which AWS account the tables are, and this command asks AWS nothing: name the "
            "account by --account (aws sts get-caller-identity tells it). No policy was made"
        )
    if region is None:
        raise BadSetting(
            "the settings don't say in which region the tables are: set aws.region, or name the region by --region. "
            "No policy was made"
        )
    return Account(_partition(region), region, number)


@cache  # botocore reads the file of all its endpoints for each session
def _partition(region: str) -> str:
    from botocore.exceptions import UnknownRegionError
    from botocore.session import get_session

    try:
        return str(get_session().get_partition_for_region(region))
    except UnknownRegionError:
        # A region that is newer than botocore.
        return "aws"


@dataclass(frozen=True, slots=True)
class ApplicationArns:
    settings: Settings
    account: Account

    # -- Kinesis and DynamoDB --------------------------------------------------------------------------------------

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(place for place, _ in self._read_by(self.settings))

    def _read_by(self, settings: Settings) -> Iterator[tuple[str, StreamSettings | DiscoverySettings]]:
        """Each stream of Kinesis that an application reads, with its entry in the settings."""
        for stream in settings.streams:
            if not is_dynamodb(stream.name):
                yield self._stream(stream), stream
        discovery = settings.discovery
        if discovery.is_asked_for:
            found = f"stream/{discovery.prefix or ''}*"
            yield self._account_of("kinesis").arn("kinesis", found), discovery

    def _stream(self, stream: StreamSettings) -> str:
        if _STREAM in stream.name:
            return stream.name
        return self._account_of("kinesis", stream.role).arn("kinesis", f"stream/{stream.name}")

    @property
    def table_streams(self) -> tuple[str, ...]:
        """The ARNs of the streams of DynamoDB tables."""
        return tuple(stream.name for stream in self.settings.streams if is_dynamodb(stream.name))

    @property
    def consumers(self) -> tuple[str, ...]:
        """The ARNs of the consumers of streams that are read by enhanced fan-out. Such an ARN ends in the second
        of the consumer's registration.
        """
        named = (
            (place, settings.consumer_of(stream))
            for settings in self.applications
            for place, stream in self._read_by(settings)
        )
        return tuple(f"{place}/consumer/{name}:*" for place, name in named if name is not None)

    @property
    def fanned_out(self) -> tuple[str, ...]:
        """The ARNs of the streams that are read by enhanced fan-out."""
        return tuple(dict.fromkeys(consumer.partition("/consumer/")[0] for consumer in self.consumers))

    @property
    def applications(self) -> tuple[Settings, ...]:
        """The settings of the application that lands records, and of those that belong to processors of `mode:
        application`.
        """
        return applications_of(self.settings)

    @property
    def lease_table(self) -> str:
        """The ARN of the lease table of the application that lands records."""
        return self._table(self.settings.lease_table)

    @property
    def lease_tables(self) -> tuple[str, ...]:
        return tuple(self._table(application.lease_table) for application in self.applications)

    @property
    def processor_lease_tables(self) -> tuple[str, ...]:
        """The ARNs of the lease tables in which Spark's tasks write the checkpoints of processors."""
        return self.lease_tables[1:]

    @property
    def state_table(self) -> str:
        return self._table(self.settings.state_table)

    @property
    def coordination_tables(self) -> tuple[str, ...]:
        return tuple(
            self._table(name)
            for application in self.applications
            for name in (application.lease_table, application.worker_table, application.state_table)
        )

    @property
    def owner_indexes(self) -> tuple[str, ...]:
        return tuple(f"{table}/index/{lease_item.OWNER_INDEX}" for table in self.lease_tables)

    def _table(self, name: str) -> str:
        return self._account_of("dynamodb").arn("dynamodb", f"table/{name}")

    def _account_of(self, service: str, role: str | None = None) -> Account:
        """The account and region of a service: those of its block in the settings, and of the role that is assumed."""
        place = self.settings.aws.of(service)
        region, role = place.region or self.account.region, role or place.role
        number = role.split(":")[4] if role else self.account.number
        return Account(_partition(region), region, number)

    def roles_of(self, *services: str) -> tuple[str, ...]:
        """The ARNs of the roles that have to be assumed to call these services."""
        aws, named = self.settings.aws, self.settings.streams
        roles = [aws.of(service).role for service in services]
        roles += [stream.role for stream in named] if "kinesis" in services else []
        return tuple(dict.fromkeys(role for role in roles if role is not None))

    # -- the lake --------------------------------------------------------------------------------------------------

    @property
    def lake_tables(self) -> tuple[str, ...]:
        """The names of the lake table and its lineage table, which every part of Headrace uses."""
        return _with_lineage(self.settings.landing.table)

    @property
    def typed_tables(self) -> tuple[str, ...]:
        """The names of the tables that are made of the lake table, and of their quarantine tables."""
        tables = [
            *(table for target in self.settings.parse for table in (target.table, target.quarantine)),
            *(
                table
                for maker in landed_processors(self.settings)
                for table in (maker.table, maker.quarantine)
            ),
        ]
        return tuple(name for table in tables for name in _with_lineage(table))

    @property
    def window_list(self) -> tuple[str, ...]:
        return (f"{self.settings.landing.table}_windows",)

    @property
    def window_tables(self) -> tuple[str, ...]:
        """The names of the tables into which windows are copied."""
        return (f"{self.settings.landing.table}_window_*",)

    @property
    def warehouse(self) -> tuple[str, ...]:
        """The folder of the tables in S3, as `<bucket>/<key>`; none where they are elsewhere."""
        return _folders(self.settings.landing.catalog.get("warehouse"))

    @property
    def state(self) -> tuple[str, ...]:
        """The folder with positions, the memory of upkeep, and proofs."""
        return _folders(self.settings.landing.state)

    @property
    def buckets(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(self.s3(folder.partition("/")[0]) for folder in (*self.warehouse, *self.state))
        )

    def s3(self, path: str) -> str:
        return f"arn:{self.account.partition}:s3:::{path}"

    def glue(self, tables: tuple[str, ...]) -> tuple[str, ...]:
        """The ARNs of Glue's catalog, and of the databases and tables with these names."""
        databases = dict.fromkeys(f"database/{name.partition('.')[0]}" for name in tables)
        paths = ("catalog", *databases, *(f"table/{name.replace('.', '/', 1)}" for name in tables))
        return tuple(self.account.arn("glue", path) for path in paths)

    @property
    def table_bucket(self) -> str | None:
        """The ARN of the S3 Tables bucket, where that is the catalog; else None."""
        catalog = self.settings.landing.catalog
        return catalog.get("warehouse") if catalog.get("rest.signing-name") == "s3tables" else None


def _with_lineage(table: str) -> tuple[str, str]:
    return table, f"{table}_lineage"


def _folders(uri: str | None) -> tuple[str, ...]:
    parts = urlsplit(uri or "")
    return (f"{parts.netloc}{parts.path}".rstrip("/"),) if parts.scheme in {"s3", "s3a"} else ()
