"""boto3 clients by the settings, and what their failures mean here."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as boto
from botocore.config import Config

from pipeline.errors import BadSetting, HeadraceError, Terminal, Throttled, Unreachable
from pipeline.settings import AwsSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

_ATTEMPTS: Final = 3
_CONNECT: Final = 2.0
_READ: Final = 4.0
"""Seconds. A worker's tick has ten of them: an endpoint that is down must be known as such within the tick."""

_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


def dynamodb_client(settings: AwsSettings) -> DynamoDBClient:
    client: DynamoDBClient = _client("dynamodb", settings)
    return client


def kinesis_client(settings: AwsSettings) -> KinesisClient:
    client: KinesisClient = _client("kinesis", settings)
    return client


def _client(service: str, settings: AwsSettings) -> Any:
    """Credentials come from the environment or a role and from nowhere else: there is no parameter for them."""
    if settings.endpoint is not None and "@" in urlsplit(settings.endpoint).netloc:
        raise BadSetting(
            "aws.endpoint holds a user or a password; leave them out of the address: credentials come from the "
            "environment or a role, never from settings"
        )
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=_CONNECT,
        read_timeout=_READ,
        user_agent_extra="headrace",
        max_pool_connections=32,  # 16 writes of a wave, and as many of the beat beside it
    )
    try:
        region = settings.region or os.environ.get("AWS_REGION")  # boto3 reads AWS_DEFAULT_REGION only
        session = boto3.Session(profile_name=settings.profile, region_name=region)
        return session.client(service, endpoint_url=settings.endpoint, config=config)  # type: ignore[call-overload]
    except boto.ProfileNotFound as error:
        raise BadSetting(
            f"aws.profile {settings.profile!r} is in none of AWS's configuration files"
        ) from error
    except boto.NoRegionError as error:
        raise BadSetting(
            "no AWS region is known: set aws.region, AWS_REGION or a profile that has one"
        ) from error
    except ValueError as error:  # botocore's answer to an endpoint that is no URL
        raise BadSetting(
            f"aws.endpoint {settings.endpoint!r} isn't the address of a service ({error})"
        ) from error


def where(client: Any) -> str:
    """The region and endpoint that a sentence about a missing thing must name."""
    return f"{client.meta.region_name} at {client.meta.endpoint_url}"


def code_of(error: boto.ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


@contextmanager
def asking(what: str, *, passing: Container[str] = (), writes: bool = False) -> Iterator[None]:
    """Whatever AWS's client raises inside becomes one of ours; codes that the caller has an answer for pass."""
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
        return "Whether a write arrived isn't known; its condition makes a second try safe"
    return "Nothing was written; if this goes on, check aws.region and aws.endpoint"


def _meaning(what: str, error: boto.ClientError, *, writes: bool) -> HeadraceError:
    code = code_of(error)
    said = f"{code}: {error.response.get('Error', {}).get('Message', '')}".rstrip(": ")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _THROTTLED:
        return Throttled(
            f"{what}: throttled after {_ATTEMPTS} attempts ({said}). Nothing was written; the next tick asks again"
        )
    if code in _EXPIRED:
        return Unreachable(
            f"{what}: the credentials expired ({said}). Nothing was written; fresh ones are fetched for the next try"
        )
    if status >= 500:
        return Unreachable(f"{what}: AWS failed ({said}). {_what_now(writes=writes)}")
    return Terminal(
        f"{what}: AWS refuses ({said}). Nothing was written; check the policy of this role and the settings"
    )
