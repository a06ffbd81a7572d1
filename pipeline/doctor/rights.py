"""A check: whether AWS allows this process what its roles need, by calls that change nothing.

A write is tried with a condition that never holds, on a key that no row has. AWS checks the rights first, so that
a failed condition shows that the write is allowed. A table that exists is asked to be created once more, which
AWS refuses as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.doctor.dry_calls import DryCall, NotTried, dry_calls_of
from headrace.pipeline.iam.places import Account, ApplicationArns
from headrace.pipeline.iam.roles import Role, statements_of

_NAME = "rights"
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})


@dataclass(frozen=True, slots=True)
class Rights:
    """The result of the calls: action -> the places where AWS refuses it."""

    refused: Mapping[str, tuple[str, ...]]
    tried: frozenset[str]


def rights_are_there(live: LiveCase) -> Iterator[Diagnosis]:
    shown = _rights(dry_calls_of(live.settings))
    for role in live.case.roles:
        yield _of_role(role, _actions(role, live), shown)


def _rights(calls: Iterator[DryCall]) -> Rights:
    refused: dict[str, tuple[str, ...]] = {}
    tried: set[str] = set()
    for call in calls:
        try:
            is_denied = _is_denied(call.make)
        except NotTried:
            continue
        tried.add(call.action)
        if is_denied:
            refused[call.action] = (*refused.get(call.action, ()), call.place)
    return Rights(refused, frozenset(tried))


def _is_denied(make: Callable[[], Any]) -> bool:
    from botocore.exceptions import ClientError

    from headrace.pipeline.aws.clients.error_codes import code_of

    try:
        make()
    except ClientError as error:
        # All other answers are those of somebody who is allowed to ask.
        return code_of(error) in _DENIED
    return False


def _actions(role: Role, live: LiveCase) -> frozenset[str]:
    # Which account it is doesn't matter for the names of actions.
    places = ApplicationArns(live.settings, Account("aws", "", ""))
    return frozenset(action for each in statements_of(role, places) for action in each.actions)


def _of_role(role: Role, actions: frozenset[str], shown: Rights) -> Diagnosis:
    lacking = {action: shown.refused[action] for action in sorted(actions & shown.refused.keys())}
    untried = sorted(actions - shown.tried)
    rest = f"; not tried: {', '.join(untried)}" if untried else ""
    if not lacking:
        tried = counted(len(actions & shown.tried), "action")
        return Diagnosis(_NAME, Health.WELL, f"{role}: {tried} of its policy tried, all allowed{rest}")
    named = "; ".join(f"{action} on {', '.join(places)}" for action, places in lacking.items())
    return Diagnosis(
        _NAME,
        Health.ILL,
        f"{role}: AWS refuses {named}{rest}",
        f"`headrace iam --role {role}` prints the policy that this role needs; what this process doesn't do, it needn't be "
        "allowed: name its roles by --role",
    )
