"""The statements of one or more roles as one document of IAM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.pipeline.iam.places import ApplicationArns
from headrace.pipeline.iam.rights import Statement
from headrace.pipeline.iam.roles import Role, statements_of


def role_policy(roles: Iterable[Role], places: ApplicationArns) -> dict[str, Any]:
    """A process that has the duties of several roles, such as one that runs sensors and runs, needs all of them."""
    statements = [statement for role in dict.fromkeys(roles) for statement in statements_of(role, places)]
    return {
        "Version": "2012-10-17",
        "Statement": [_document(statement) for statement in _together(statements)],
    }


def _together(statements: Iterable[Statement]) -> list[Statement]:
    """Statements about the same resources become one, under the name of the first."""
    merged: dict[tuple[str, ...], Statement] = {}
    for statement in statements:
        first = merged.get(statement.resources)
        actions = (
            statement.actions if first is None else tuple(dict.fromkeys((*first.actions, *statement.actions)))
        )
        merged[statement.resources] = Statement(
            first.sid if first else statement.sid, actions, statement.resources
        )
    # A statement's name may stand once in a document.
    names: dict[str, int] = {}
    numbered = []
    for statement in merged.values():
        names[statement.sid] = names.get(statement.sid, 0) + 1
        suffix = str(names[statement.sid]) if names[statement.sid] > 1 else ""
        numbered.append(Statement(f"{statement.sid}{suffix}", statement.actions, statement.resources))
    return numbered


def _document(statement: Statement) -> dict[str, Any]:
    return {
        "Sid": statement.sid,
        "Effect": "Allow",
        "Action": list(statement.actions),
        "Resource": list(statement.resources),
    }
