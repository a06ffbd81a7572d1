"""The statements of one or more roles as one document of IAM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.pipeline.iam.places import ApplicationArns
from headrace.pipeline.iam.rights import Statement
from headrace.pipeline.iam.roles import Role, statements_of


def role_policy(roles: Iterable[Role], places: ApplicationArns) -> dict[str, Any]:
    """A process that has the duties of several roles, such as one that runs sensors and runs, needs all of them."""
    every = [each for role in dict.fromkeys(roles) for each in statements_of(role, places)]
    return {"Version": "2012-10-17", "Statement": [_document(each) for each in _together(every)]}


def _together(statements: Iterable[Statement]) -> list[Statement]:
    """Statements about the same resources become one, under the name of the first."""
    merged: dict[tuple[str, ...], Statement] = {}
    for each in statements:
        first = merged.get(each.resources)
        actions = each.actions if first is None else tuple(dict.fromkeys((*first.actions, *each.actions)))
        merged[each.resources] = Statement(first.sid if first else each.sid, actions, each.resources)
    # A statement's name may stand once in a document.
    names: dict[str, int] = {}
    numbered = []
    for each in merged.values():
        names[each.sid] = names.get(each.sid, 0) + 1
        suffix = str(names[each.sid]) if names[each.sid] > 1 else ""
        numbered.append(Statement(f"{each.sid}{suffix}", each.actions, each.resources))
    return numbered


def _document(each: Statement) -> dict[str, Any]:
    return {
        "Sid": each.sid,
        "Effect": "Allow",
        "Action": list(each.actions),
        "Resource": list(each.resources),
    }
