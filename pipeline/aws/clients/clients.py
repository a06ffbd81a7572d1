"""boto3 clients made from the settings, and the translation of their exceptions to Headrace's errors."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as boto
from botocore.config import Config
from botocore.loaders import create_loader
from botocore.session import Session

from headrace.pipeline.aws.clients.access import KinesisAccess, role_at
from headrace.pipeline.aws.clients.error_codes import THROTTLED, code_of
from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.aws.clients.plain_answers import with_plain_answers
from headrace.pipeline.errors import BadSetting, HeadraceError, Terminal, Throttled, Unreachable
from headrace.pipeline.settings.blocks.aws import AwsPlace, AwsSettings
from headrace.pipeline.task_identity import AssumedRole, assuming

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

# Attempts of one request with the first one: botocore counts `total_max_attempts` so, and `max_attempts`
# without it.
_ATTEMPTS: Final = 3
_CONNECT: Final = 2.0
# Seconds, to connect and to wait for an answer. A worker's tick has 10 s, and has to report an endpoint
# that is down.
_READ: Final = 4.0

_OF_ROWS: Final = frozenset(
    {"GetItem", "BatchGetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem"}
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


def dynamodb_client(settings: AwsSettings, meter: Meter | None = None) -> DynamoDBClient:
    """Make a client of DynamoDB.

    `meter`: counts the client's requests, if it is given.
    """
    client: DynamoDBClient = _client(settings.of("dynamodb"))
    if meter is not None:
        meter.attach(client)
    return with_plain_answers(client)


def kinesis_client(settings: AwsSettings, meter: Meter | None = None) -> KinesisClient:
    return kinesis_client_at(settings.of("kinesis"), meter)


def kinesis_client_at(place: AwsPlace, meter: Meter | None = None) -> KinesisClient:
    """Make a client for streams that are read by a role of their own."""
    client: KinesisClient = _client(place)
    if meter is not None:
        meter.attach(client)
    return client


def cloudwatch_client(settings: AwsSettings) -> CloudWatchClient:
    """Make a client of CloudWatch. It tries a request at most twice: metrics that come late are worth little, and
    a run that ends waits for them.
    """
    client: CloudWatchClient = _client(
        settings.of("cloudwatch"),
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=1,
    )
    return client


def dynamodb_streams_client(settings: AwsSettings, meter: Meter | None = None) -> Any:
    client = _client(settings.of("dynamodbstreams"))
    if meter is not None:
        meter.attach(client)
    return client


def kinesis_access(settings: AwsSettings, service: str = "kinesis") -> KinesisAccess:
    """The address and options of this process's client of Kinesis (or of DynamoDB Streams: `service`), for tasks
    that make such a client too. The identity of the tasks isn't in it.
    """
    place = settings.of(service)
    client = _client(place)
    session = Session(profile=place.profile)
    endpoint = place.endpoint
    if endpoint is None and client.meta.endpoint_url != _endpoint_of_aws(place):
        # From the environment or from a profile: AWS_ENDPOINT_URL_KINESIS, AWS_ENDPOINT_URL, endpoint_url.
        endpoint = client.meta.endpoint_url
    # AWS's own endpoint isn't handed over: botocore uses one for each account, by the ARN of the stream.
    network = place.network
    fips, dualstack = network.fips, network.dualstack
    return KinesisAccess(
        client.meta.region_name,
        endpoint,
        fips=bool(session.get_config_variable("use_fips_endpoint") if fips is None else fips),
        dualstack=bool(
            session.get_config_variable("use_dualstack_endpoint") if dualstack is None else dualstack
        ),
        network=network,
        certificates=session.get_config_variable("ca_bundle"),
    )


def _endpoint_of_aws(place: AwsPlace) -> str:
    own = _client(place, ignore_configured_endpoint_urls=True)
    return str(own.meta.endpoint_url)


def _client(place: AwsPlace, **more: Any) -> Any:
    """A client. It has no parameter for credentials on purpose: they come from the environment or a role only."""
    if place.endpoint is not None and "@" in urlsplit(place.endpoint).netloc:
        raise BadSetting(
            f"{place.endpoint_key} holds a user or a password. Leave them out of the address: credentials come from the "
            "environment or a role, never from settings"
        )
    options: dict[str, Any] = {
        "retries": {"mode": "standard", "total_max_attempts": _ATTEMPTS},
        "connect_timeout": _CONNECT,
        "read_timeout": _READ,
        "user_agent_extra": "headrace",
        # A wave writes 16 rows at once, and its beat needs connections at the same time. boto3's default is 10.
        "max_pool_connections": 32,
    }
    config = Config(**options | more | place.network.as_config())
    try:
        # boto3 itself only reads AWS_DEFAULT_REGION.
        region = place.region or os.environ.get("AWS_REGION")
        return _session(place.profile, region, role_at(place, region)).client(
            place.service, endpoint_url=place.endpoint, config=config
        )  # type: ignore[call-overload]
    except boto.ProfileNotFound as error:
        raise BadSetting(_no_profile(place)) from error
    except boto.NoRegionError as error:
        raise BadSetting(
            "no AWS region is known: set aws.region, AWS_REGION or a profile that has one"
        ) from error
    except ValueError as error:
        # botocore raises it for an endpoint that isn't a URL.
        raise BadSetting(
            f"{place.endpoint_key} {place.endpoint!r} isn't the address of a service ({error})"
        ) from error


def _session(profile: str | None, region: str | None, role: AssumedRole | None) -> boto3.Session:
    """A session with credentials of its own. All sessions of the process share what botocore knows about
    AWS's services."""
    own = Session(profile=profile)
    shared = _descriptions(own.get_config_variable("data_path"))
    own.register_component("data_loader", shared)
    if role is not None:
        assuming(own, role)
    session = boto3.Session(region_name=region, botocore_session=own)
    # Each of boto3's sessions adds boto3's own folder to the shared list once more.
    shared.search_paths[:] = dict.fromkeys(shared.search_paths)
    return session


_descriptions = cache(create_loader)
"""The descriptions of AWS's services, each read when the first client needs it: 60 ms of CPU, four fifths
of making a client."""


def _no_profile(place: AwsPlace) -> str:
    """A sentence with the missing profile and the setting or variable that names it, in the order in which
    boto3 looks."""
    profiles = {f"{place.profile_key} in the settings": place.profile} | {
        f"{variable} in the environment": os.environ.get(variable)
        for variable in ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
    }
    where, name = next((where, name) for where, name in profiles.items() if name is not None)
    return (
        f"{where} is {name!r}, and none of AWS's configuration files (~/.aws/config, ~/.aws/credentials, "
        "or those that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name) has such a profile. "
        "Nothing was read or written; name an existing profile, or none where credentials come from "
        "elsewhere"
    )


def place_of_client(client: Any) -> str:
    """Region and endpoint of a client, for messages about things that are missing there."""
    return f"{client.meta.region_name} at {client.meta.endpoint_url}"


@contextmanager
def asking_aws(what: str, *, passing: Container[str] = (), writes: bool = False) -> Iterator[None]:
    """Turn botocore's exceptions into Headrace's errors. ClientErrors with a code in `passing` are raised unchanged.

    `what` names the thing that is read or written, for the message.
    """
    try:
        yield
    except boto.ClientError as error:
        if code_of(error) in passing:
            raise
        raise _meaning(what, error, writes=writes) from error
    except (boto.ConnectionError, boto.HTTPClientError, boto.ResponseStreamingError) as error:
        raise Unreachable(f"{what}: no answer ({error}). {_what_now(writes=writes)}") from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.TokenRetrievalError) as error:
        raise Terminal(
            f"{what}: no AWS credentials were found ({error}). Nothing was written; give this process a role, or "
            "credentials in its environment"
        ) from error
    except boto.CredentialRetrievalError as error:
        raise Unreachable(
            f"{what}: credentials couldn't be fetched ({error}). Nothing was written"
        ) from error


def _what_now(*, writes: bool) -> str:
    if writes:
        return "Whether the write arrived isn't known; it is conditional, so trying again is safe"
    return "Nothing was written; if this error stays, check aws.region and aws.endpoint"


def _capacity_is_short(error: boto.ClientError) -> str:
    """The remedy, where DynamoDB refuses what goes beyond a table's capacity. Kinesis has the same code for its shards."""
    if error.operation_name not in _OF_ROWS or code_of(error) != "ProvisionedThroughputExceededException":
        return ""
    return ". If the table has provisioned capacity, raise that of the table and of its index: see Sizing in docs/use/deploying.md"


def _meaning(what: str, error: boto.ClientError, *, writes: bool) -> HeadraceError:
    code = code_of(error)
    reason = f"{code}: {error.response.get('Error', {}).get('Message', '')}".rstrip(": ")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    # Before the status is looked at: some throttling codes come with a status of 500 or more.
    if code in THROTTLED:
        return Throttled(
            f"{what}: throttled after {_ATTEMPTS} attempts ({reason}). Nothing was written; the next tick tries "
            f"again{_capacity_is_short(error)}"
        )
    if code in _EXPIRED:
        return Unreachable(
            f"{what}: the credentials expired ({reason}). Nothing was written; the next try fetches new ones"
        )
    if status >= 500:
        return Unreachable(f"{what}: AWS failed ({reason}). {_what_now(writes=writes)}")
    return Terminal(
        f"{what}: AWS refuses the request ({reason}). Nothing was written; "
        "check the policy of this role and the settings"
    )
