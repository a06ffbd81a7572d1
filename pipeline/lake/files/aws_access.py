"""Passes the settings `aws.region`, `aws.profile` and `aws.endpoint` on to the Iceberg catalog and to the access
to files in S3.

pyiceberg has a property of its own for each service, and pyarrow's access to S3 knows no profiles at all: it is
given the keys. A Spark task has region, endpoint and identity of the driver (`headrace.pipeline.task_identity`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from socket import gethostname
from typing import TYPE_CHECKING, Any

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.task_identity import AwsKeys, TaskIdentity, frozen, named

if TYPE_CHECKING:
    from headrace.pipeline.settings.blocks.aws import AwsSettings

_REGION = ("s3.region", "client.region")
"""Properties of pyiceberg: the one of S3 counts before the one of all services."""
_PROFILE = ("s3.profile-name", "client.profile-name")
_KEY = ("s3.access-key-id", "client.access-key-id")
_SECRET = ("s3.secret-access-key", "client.secret-access-key")
_TOKEN = ("s3.session-token", "client.session-token")
_ROLE = ("s3.role-arn", "client.role-arn")
_ROLE_SESSION = ("s3.role-session-name", "client.role-session-name")
_OTHER_ACCESS = (*_KEY, *_ROLE, "s3.anonymous")
_NO_REGION = "us-east-1"
"""The region that pyarrow takes where nothing tells one."""

SMALL_FILES: Mapping[str, Any] = {"allow_delayed_open": True}
"""Option of pyarrow's S3FileSystem: it writes a small file by one request, and begins a multipart upload once more than
5 MiB (S3's smallest part) are written. By default each file is a multipart upload of three requests.
"""
# Not beside pyiceberg's FileIO: a Spark worker that imports pyiceberg needs a second of CPU more to start.

_lasting: dict[Hashable, Any] = {}
"""Identity, or role and session name -> credentials that refresh themselves. Others are read from the files each
time."""


def with_aws(properties: Mapping[str, str], aws: AwsSettings) -> dict[str, str]:
    """The catalog's properties, completed by the settings. A property that the catalog has isn't replaced; if it is
    empty, it stands for AWS's own endpoint, or for the profile or region of the environment."""
    given = {
        "client.region": aws.region,
        "client.profile-name": aws.profile,
        "s3.endpoint": aws.endpoint,
        "glue.endpoint": aws.endpoint,
    }
    merged = {**given, **properties}
    return {
        name: value for name, value in merged.items() if value is not None and (value or name not in given)
    }


def options_of_s3(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The addresses and names that a Spark task needs to reach S3, without the identity: it holds no keys. All
    values are the driver's.
    """
    options = {
        "endpoint": properties.get("s3.endpoint"),
        "region": _first(properties, _REGION) or _region_of_this_process(properties),
    }
    return tuple((name, value) for name, value in options.items() if value)


def identity_of_s3(properties: Mapping[str, str], driver: Callable[[], TaskIdentity]) -> TaskIdentity | None:
    """The AWS identity by which a Spark task calls S3; None where requests aren't signed. `driver`: the identity
    of this process.

    The properties of the catalog come first, as pyiceberg has it; a REST catalog may have given them for this table.
    """
    # First of all: keys that lie about must not be sent to a bucket that wants none.
    if properties.get("s3.anonymous", "").lower() == "true":
        return None
    if (key := _first(properties, _KEY)) and (secret := _first(properties, _SECRET)):
        return TaskIdentity(keys=AwsKeys(key, secret, _first(properties, _TOKEN)))
    if role := _first(properties, _ROLE):
        return TaskIdentity(keys=_keys_of_role(role, _first(properties, _ROLE_SESSION), properties, driver()))
    profile = _first(properties, _PROFILE)
    return named(profile) if profile else driver()


def profile_of_s3(properties: Mapping[str, str]) -> str | None:
    """The AWS profile by which files in S3 are read and written; None where the catalog's properties name
    credentials of another kind.
    """
    return None if _first(properties, _OTHER_ACCESS) else _first(properties, _PROFILE)


def keys_of(identity: TaskIdentity) -> dict[str, str | None]:
    """The credentials of an identity on this host, under the names that pyarrow's S3FileSystem gives them."""
    from botocore.credentials import RefreshableCredentials
    from botocore.exceptions import ProfileNotFound

    keys = identity.keys
    if keys is None:
        held = _lasting.get(identity)
        try:
            held = held or identity.session().get_credentials()
        except ProfileNotFound as error:
            raise BadSetting(_nobody(identity.profile, "has no profile of this name")) from error
        if held is None:
            raise BadSetting(_nobody(identity.profile, "has no credentials for this profile"))
        # Others are read anew each time, because a person may have changed the file.
        if isinstance(held, RefreshableCredentials):
            _lasting[identity] = held
        keys = frozen(held)
    return {"access_key": keys.access_key, "secret_key": keys.secret_key, "session_token": keys.token}


def _keys_of_role(
    role: str, name: str | None, properties: Mapping[str, str], source: TaskIdentity
) -> AwsKeys:
    """The keys of a role that the catalog's properties name. The driver takes the role, and tasks have its keys."""
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    held = _lasting.get((role, name))
    if held is None:
        session = source.session()
        region = dict(options_of_s3(properties)).get("region")

        def sts(service: str, **keys: Any) -> Any:
            return session.create_client(service, region_name=region, **keys)

        fetcher = AssumeRoleCredentialFetcher(
            sts, session.get_credentials(), role, extra_args={"RoleSessionName": name or "headrace"}
        )
        # Kept, because each taking of a role is a request to STS, which limits them.
        held = _lasting[role, name] = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return frozen(held)


def _region_of_this_process(properties: Mapping[str, str]) -> str:
    """The region as AWS's library for C++ finds it, by which pyarrow reads S3."""
    from botocore.session import Session

    region = os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION")
    return region or Session(profile=_first(properties, _PROFILE)).get_config_variable("region") or _NO_REGION


def _nobody(profile: str | None, why: str) -> str:
    if profile is None:
        return (
            f"the host {gethostname()} has no role, and Headrace itself works by the role of its own host, so that there are no keys to hand over. "
            "No file in S3 was read or written. Give the hosts of Spark's tasks a role; or name a profile by aws.profile, or run Headrace with "
            "AWS_PROFILE or keys"
        )
    return (
        f"the host {gethostname()} {why}: {profile!r}, which aws.profile names (or landing.catalog). No file in S3 was read or written. "
        "Each host that runs Headrace or its Spark tasks needs the profile in its AWS configuration files; or leave aws.profile out, "
        "and give Headrace itself the profile by AWS_PROFILE: then its keys go with each task"
    )


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)
