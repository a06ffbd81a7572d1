"""How the settings `aws.region`, `aws.profile` and `aws.endpoint` reach the Iceberg catalog and the files in S3.

pyiceberg has a property of its own for each service, and pyarrow's access to S3 knows no profiles at all: it is given the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from socket import gethostname
from typing import TYPE_CHECKING, Any

from headrace.pipeline.errors import BadSetting

if TYPE_CHECKING:
    from headrace.pipeline.settings.model import AwsSettings

_REGION = ("s3.region", "client.region")
"""Properties of pyiceberg: the one of S3 counts before the one of all services."""
_PROFILE = ("s3.profile-name", "client.profile-name")
_OTHER_ACCESS = (
    "s3.access-key-id",
    "client.access-key-id",
    "s3.role-arn",
    "client.role-arn",
    "s3.anonymous",
)

SMALL_FILES: Mapping[str, Any] = {"allow_delayed_open": True}
"""Option of pyarrow's S3FileSystem: it writes a small file by one request, and begins a multipart upload once more than 5 MiB
(S3's smallest part) are written. By default each file is a multipart upload of three requests.
"""
# Not beside pyiceberg's FileIO: a Spark worker that imports pyiceberg needs a second of CPU more to start.

_lasting: dict[str, Any] = {}
"""Profile -> credentials that refresh themselves, such as those of a role. Others are read from the files each time."""


def with_aws(properties: Mapping[str, str], aws: AwsSettings) -> dict[str, str]:
    """The catalog's properties, completed by the settings. A property that the catalog has isn't replaced; if it is empty, it stands
    for AWS's own endpoint, or for the profile or region of the environment."""
    given = {
        "client.region": aws.region,
        "client.profile-name": aws.profile,
        "s3.endpoint": aws.endpoint,
        "glue.endpoint": aws.endpoint,
    }
    both = {**given, **properties}
    return {name: value for name, value in both.items() if value is not None and (value or name not in given)}


def options_of_s3(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What a Spark task has to know for S3: names and addresses, never keys."""
    found = {
        "endpoint": properties.get("s3.endpoint"),
        "region": _first(properties, _REGION),
        "profile": profile_of_s3(properties),
    }
    return tuple((name, value) for name, value in found.items() if value)


def profile_of_s3(properties: Mapping[str, str]) -> str | None:
    """The profile by which files in S3 are read and written; None where the catalog's properties name another access."""
    return None if _first(properties, _OTHER_ACCESS) else _first(properties, _PROFILE)


def keys_of(profile: str) -> dict[str, str | None]:
    """The credentials of a profile of this host, under the names that pyarrow's S3FileSystem gives them."""
    from botocore.credentials import RefreshableCredentials
    from botocore.exceptions import ProfileNotFound
    from botocore.session import Session

    held = _lasting.get(profile)
    try:
        held = held or Session(profile=profile).get_credentials()
    except ProfileNotFound as error:
        raise BadSetting(_no_profile(profile, "has no profile of this name")) from error
    if held is None:
        raise BadSetting(_no_profile(profile, "has no credentials for this profile"))
    if isinstance(held, RefreshableCredentials):
        _lasting[profile] = held
    now = held.get_frozen_credentials()
    return {"access_key": now.access_key, "secret_key": now.secret_key, "session_token": now.token}


def _no_profile(profile: str, why: str) -> str:
    return (
        f"the host {gethostname()} {why}: {profile!r}, which aws.profile names (or landing.catalog). No file in S3 was read or written. "
        "Each host that runs Headrace or its Spark tasks needs the profile in its AWS configuration files; or leave aws.profile out, "
        "and let each host use its role or environment"
    )


def _first(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)
