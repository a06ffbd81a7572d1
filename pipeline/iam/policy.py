"""The statements of one or more roles, as one IAM policy document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.pipeline.iam.places import ApplicationArns
from headrace.pipeline.iam.rights import Statement, statement
from headrace.pipeline.iam.roles import Role, statements_of
from headrace.pipeline.settings.blocks.aws import SERVICES


def role_policy(roles: Iterable[Role], places: ApplicationArns) -> dict[str, Any]:
    """The policy for a process with the duties of these roles. A process that runs both sensors and runs needs
    the statements of several roles.
    """
    statements = [allowed for role in dict.fromkeys(roles) for allowed in statements_of(role, places)]
    asked = {action.partition(":")[0] for one in statements for action in one.actions}
    statements += statement(
        "AssumeRoles",
        "sts",
        "AssumeRole",
        places.roles_of(*(service for service in SERVICES if service in asked)),
    )
    return {
        "Version": "2012-10-17",
        "Statement": [_document(statement) for statement in _together(statements)],
    }


def _together(statements: Iterable[Statement]) -> list[Statement]:
    """Statements about the same resources become one, under the name of the first."""
    merged: dict[tuple[str, ...], Statement] = {}
    for allowed in statements:
        first = merged.get(allowed.resources)
        actions = (
            allowed.actions if first is None else tuple(dict.fromkeys((*first.actions, *allowed.actions)))
        )
        merged[allowed.resources] = Statement(first.sid if first else allowed.sid, actions, allowed.resources)
    # A statement's name may stand once in a document.
    names: dict[str, int] = {}
    numbered = []
    for allowed in merged.values():
        names[allowed.sid] = names.get(allowed.sid, 0) + 1
        suffix = str(names[allowed.sid]) if names[allowed.sid] > 1 else ""
        numbered.append(Statement(f"{allowed.sid}{suffix}", allowed.actions, allowed.resources))
    return numbered


def _document(statement: Statement) -> dict[str, Any]:
    return {
        "Sid": statement.sid,
        "Effect": "Allow",
        "Action": list(statement.actions),
        "Resource": list(statement.resources),
    }
