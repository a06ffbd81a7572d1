"""Callers of the stand-in by their access keys: what each has asked for, and what its policy allows.

The stand-in allows everything until a caller is given a policy. From then on it refuses this caller what the policy
doesn't allow, and keeps what the caller has asked for, so that tests can compare both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from headrace.pipeline.local.actions import Asked, asked_by, caller_of
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.kinesis.kinesis import Kinesis


class Callers:
    """The policies of callers, and what these callers have asked for."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._policies: dict[str, Mapping[str, Any]] = {}
        self._asked: dict[str, set[Asked]] = {}

    def __bool__(self) -> bool:
        """Tell whether anybody has a policy, so that calls cost nothing extra where nobody has."""
        return bool(self._policies)

    def limit(self, caller: str, policy: Mapping[str, Any]) -> None:
        """Give a caller a policy, in IAM's form, and refuse from then on what the policy doesn't allow."""
        for statement in policy["Statement"]:
            if statement["Effect"] != "Allow" or set(statement) - {"Sid", "Effect", "Action", "Resource"}:
                raise ValueError(
                    "policy: a statement has Effect Allow, Action and Resource, and nothing else"
                )
        self._policies[caller] = policy
        self._asked.setdefault(caller, set())

    def forget(self) -> None:
        """Remove all policies, so that every caller may do everything."""
        self._policies.clear()
        self._asked.clear()

    def described(self) -> dict[str, list[dict[str, str]]]:
        """Give for each caller with a policy what it has asked for, allowed or not."""
        return {
            caller: [{"action": one.action, "resource": one.resource} for one in sorted(every)]
            for caller, every in self._asked.items()
        }

    def refusal(self, request: HttpRequest, kinesis: Kinesis) -> AwsError | None:
        """Note what a request asks for, and give AWS's refusal where the caller's policy lacks something."""
        caller = caller_of(request)
        policy = self._policies.get(caller)
        if policy is None:
            return None
        every = asked_by(request, kinesis)
        self._asked[caller] |= every
        for asked in sorted(every):
            if not any(_allows(statement, asked) for statement in policy["Statement"]):
                return _refused(caller, asked)
        return None


def _allows(statement: Mapping[str, Any], asked: Asked) -> bool:
    return any(fnmatchcase(asked.action, action) for action in _several(statement["Action"])) and any(
        fnmatchcase(asked.resource, resource) for resource in _several(statement["Resource"])
    )


def _several(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _refused(caller: str, asked: Asked) -> AwsError:
    of_s3 = asked.action.startswith("s3:")
    message = (
        f"User: {caller} is not authorized to perform: {asked.action} on resource: {asked.resource} because no "
        "identity-based policy allows the action"
    )
    return AwsError("AccessDenied" if of_s3 else "AccessDeniedException", message, 403 if of_s3 else 400)
