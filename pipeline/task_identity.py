"""The AWS identity of a Spark task: that of the driver, which is handed over with the task.

    the driver's credentials come from                       the task has                    they are refreshed by
    the setting aws.profile                                  the name of the profile         the AWS files of the task's host
    a role of the driver's host (EC2, ECS, EKS)              the role of the task's host     that host
    anything else: environment, AWS_PROFILE, files, SSO ...  the keys themselves             the driver, for each job anew

A role that the settings name for Kinesis or a stream is assumed by the task itself, with whichever of these it
has, and is assumed anew before it expires: a task may read for longer than a role's credentials last.

EKS gives a role by web identity: two variables name the role and a token's file. A profile may do the same (a
CI's, for example), and that is no role of the host: a task reads no profile, so it gets the keys. A role of a
host isn't handed over as keys, although it could be: keys last for ten minutes or an hour, and a compaction may
take longer; and Spark's hosts often have a role of their own, with fewer rights.

A local Spark server is shared by processes, and has the environment of the one that started it. So keys,
profiles, regions and endpoints in that environment are never used for a task: with them, it might read another
project's stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.errors import Unreachable

if TYPE_CHECKING:
    from botocore.config import Config
    from botocore.session import Session


_FILES: Final = {"config_file": "AWS_CONFIG_FILE", "credentials_file": "AWS_SHARED_CREDENTIALS_FILE"}
"""botocore's name of a file with profiles -> the environment variable that names another place for it."""
_WEB_IDENTITY: Final = "assume-role-with-web-identity"
"""botocore's name of a way to a role, which EKS goes by variables of the environment. A profile can go it as well."""
_ROLES_OF_HOSTS: Final = frozenset({_WEB_IDENTITY, "container-role", "iam-role"})
"""botocore's names of the ways in which a host has a role."""
_OF_WEB_IDENTITY: Final = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
"""The variables by which EKS gives it. What one of them lacks, botocore takes from the profile."""
_GIVING_KEYS: Final = ("sts", "sso", "sso-oidc")
"""The services that a profile's credentials may come from, such as STS for a role."""
_ENDPOINT: Final = "AWS_ENDPOINT_URL"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """AWS keys, as a task gets them. No text that this class makes shows one of the values, nor does the text of
    an object that contains it.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRole:
    """An AWS role that is assumed with other credentials."""

    arn: str
    external_id: str | None = None
    region: str | None = None
    endpoint: str | None = None
    """The endpoint of STS; None: as the environment and the files say, and else AWS's own."""


class _ByRole:
    """What botocore asks for a session's credentials: those of the role. botocore itself has them refreshed."""

    def __init__(
        self, role: AssumedRole, source: Callable[[], Any], create_client: Callable[..., Any]
    ) -> None:
        self._role = role
        self._source = source
        self._create_client = create_client

    def load_credentials(self) -> Any:
        from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

        source = self._source()
        if source is None:
            return None
        known = {"ExternalId": self._role.external_id} if self._role.external_id else {}
        fetcher = AssumeRoleCredentialFetcher(
            self._create_sts, source, self._role.arn, extra_args={"RoleSessionName": "headrace", **known}
        )
        # Deferred: whoever makes a client asks STS nothing yet.
        return DeferredRefreshableCredentials(refresh_using=fetcher.fetch_credentials, method="assume-role")

    def _create_sts(self, service: str, **keys: Any) -> Any:
        place = {"region_name": self._role.region, "endpoint_url": self._role.endpoint}
        return self._create_client(service, **{name: value for name, value in place.items() if value}, **keys)


def assuming(session: Session, role: AssumedRole) -> Session:
    """The same session, whose requests are signed by the role from now on."""
    by_itself: Any = session.get_component("credential_provider")
    session.register_component(
        "credential_provider", _ByRole(role, by_itself.load_credentials, session.create_client)
    )
    return session


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIdentity:
    """The AWS identity of a Spark task. Without profile and keys, it is the role of the host on which the task runs."""

    profile: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    """For a profile: where the driver's environment says that the AWS files are. A host that has no such file uses its
    own ones."""
    endpoints: tuple[tuple[str, str], ...] = ()
    """For a profile and for a role: what the driver's environment says of the endpoints of the services that give
    credentials."""
    keys: AwsKeys | None = None
    role: AssumedRole | None = None
    """The role that the task assumes with the rest of this identity."""

    def session(self) -> Session:
        """A botocore session with this identity. The environment of this process isn't used."""
        if self.role is None:
            return self._session()
        from botocore.session import Session

        own = replace(self, role=None).session()
        role = replace(self.role, endpoint=self.role.endpoint or self._endpoint_of(own, "sts"))
        # Of the class itself: a profile's session would put the endpoint of its own role in the place of this one.
        create_client = partial(Session.create_client, own, config=_not_as_the_host_says())
        # Another session, because one that has been given keys never asks for others.
        signed = replace(self, keys=None, role=None).session()
        signed.register_component("credential_provider", _ByRole(role, own.get_credentials, create_client))
        return signed

    def _session(self) -> Session:
        from botocore.configprovider import ConstantProvider
        from botocore.session import Session

        session = Session() if self.profile is None else self._session_of_profile()
        store: Any = session.get_component("config_store")
        if self.profile is not None:
            for name, path in self.files:
                # The path is the driver's. This host may have its files elsewhere, under the names that AWS gives them.
                if Path(path).expanduser().is_file():
                    store.set_config_provider(name, ConstantProvider(path))
            return session
        # Nothing of this host may decide who asks: a stray profile or file would read another account's stream of the
        # same name.
        store.set_config_provider("profile", ConstantProvider(None))
        for name in _FILES:
            store.set_config_provider(name, ConstantProvider(os.devnull))
        if self.keys is not None:
            session.set_credentials(self.keys.access_key, self.keys.secret_key, self.keys.token)
        else:
            chain: Any = session.get_component("credential_provider")
            # Keys in this process's environment come first in botocore's own order, and needn't be the host's role.
            chain.providers[:] = [each for each in chain.providers if each.METHOD in _ROLES_OF_HOSTS]
        return session

    def _session_of_profile(self) -> Session:
        from botocore.session import Session

        own = _not_as_the_host_says()
        endpoint_of = self._endpoint_of

        class SessionOfProfile(Session):
            """A profile with a role makes a client of STS by itself, which asks the environment of its process for the
            endpoint."""

            def create_client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
                if service_name in _GIVING_KEYS:
                    config: Config | None = kwargs.get("config")
                    kwargs["config"] = own if config is None else config.merge(own)
                    kwargs["endpoint_url"] = endpoint_of(self, service_name)
                return super().create_client(service_name, *args, **kwargs)

        return SessionOfProfile(profile=self.profile)

    def _endpoint_of(self, session: Session, service: str) -> str | None:
        """The endpoint that botocore would take with the driver's environment and the files of the profile; None: AWS's
        own."""
        variables = dict(self.endpoints)
        name = service.replace("-", "_")
        profile: dict[str, Any] = session.get_scoped_config()
        services = session.full_config.get("services", {}).get(profile.get("services"), {})
        return (
            variables.get(f"{_ENDPOINT}_{name.upper()}")
            or variables.get(_ENDPOINT)
            or services.get(name, {}).get("endpoint_url")
            or profile.get("endpoint_url")
        )


ROLE_OF_THE_HOST: Final = TaskIdentity()


def _not_as_the_host_says() -> Config:
    from botocore.config import Config

    return Config(ignore_configured_endpoint_urls=True)  # type: ignore[call-arg] # the stubs lack it


def named(profile: str, environ: Mapping[str, str] = os.environ) -> TaskIdentity:
    """The identity of a profile that the settings name."""
    files = tuple((name, environ[variable]) for name, variable in _FILES.items() if variable in environ)
    return TaskIdentity(profile=profile, files=files, endpoints=_endpoints_in(environ))


def _endpoints_in(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = (_ENDPOINT, *(f"{_ENDPOINT}_{service.replace('-', '_').upper()}" for service in _GIVING_KEYS))
    return tuple((name, environ[name]) for name in names if environ.get(name))


class DriverIdentity:
    """The AWS identity of this process, for handing over to tasks. Its credentials refresh themselves."""

    def __init__(self, profile: str | None = None, role: AssumedRole | None = None) -> None:
        """The identity by which a driver with these settings asks AWS. `profile`: the setting aws.profile. `role`: the role
        that is assumed with it."""
        self._profile = profile
        self._role = role
        self._credentials: Any = None

    def now(self) -> TaskIdentity:
        """The identity that a job gets which begins now. Keys that expire have at least ten minutes left."""
        own = self._own()
        if self._role is None:
            return own
        return replace(own, role=self._role, endpoints=own.endpoints or _endpoints_in(os.environ))

    def _own(self) -> TaskIdentity:
        if self._profile is not None:
            return named(self._profile)
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import Session

        try:
            if self._credentials is None:
                self._credentials = Session().get_credentials()
            # Keys of a host's role end after hours, and each host of tasks has a role of its own that lasts.
            if self._credentials is None or _is_of_host(self._credentials.method):
                return ROLE_OF_THE_HOST
            return TaskIdentity(keys=frozen(self._credentials))
        except (BotoCoreError, ClientError, OSError) as error:  # OSError: the file of a token is gone
            raise Unreachable(
                f"the AWS credentials of this process, which Spark's tasks need, can't be had now ({error}). Nothing was read; the next try asks for "
                "them again"
            ) from error


def _is_of_host(method: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether credentials that botocore got by this method are a role of the host."""
    if method == _WEB_IDENTITY:
        return all(environ.get(variable) for variable in _OF_WEB_IDENTITY)
    return method in _ROLES_OF_HOSTS


def frozen(credentials: Any) -> AwsKeys:
    """The keys that botocore's credentials have now."""
    now = credentials.get_frozen_credentials()
    return AwsKeys(now.access_key, now.secret_key, now.token)
