"""The example aws-catalogs, as far as it can be checked without AWS: the settings are accepted, and the policies have the rights that
docs/use/iam.md names."""

import json
import re
from pathlib import Path

import pytest

from headrace.pipeline.iam.places import ApplicationArns, account_of
from headrace.pipeline.iam.policy import role_policy
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.settings.file import read_settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "aws-catalogs"
RIGHTS = (
    (ROOT / "docs" / "use" / "iam.md")
    .read_text(encoding="utf-8")
    .partition("\n## Rights\n")[2]
    .partition("\n## ")[0]
)
OPTIONAL = {
    "ListStreams",
    "ListTagsForStream",
    "TagResource",
    "DescribeContinuousBackups",
    "UpdateContinuousBackups",
    "DeleteTable",
    "RegisterStreamConsumer",
    "ListStreamConsumers",
    "DescribeStreamConsumer",
    "DeregisterStreamConsumer",
    "SubscribeToShard",
}
"""Rights of settings that the example doesn't have, and of the command that deletes the coordination tables."""


def actions_in(policy: str) -> set[str]:
    statements = json.loads((FOLDER / policy).read_text(encoding="utf-8"))["Statement"]
    assert all(each["Effect"] == "Allow" and "*" not in each["Resource"] for each in statements)
    return {action for each in statements for action in each["Action"]}


@pytest.mark.parametrize(("name", "kind"), [("glue.yaml", "glue"), ("s3-tables.yaml", "rest")])
def test_the_settings_are_accepted(name: str, kind: str):
    settings = read_settings(str(FOLDER / name), {}).settings
    assert settings.landing.catalog["type"] == kind
    assert settings.landing.state is not None
    assert settings.upkeep.enabled == (kind == "glue")


@pytest.mark.parametrize("policy", ["glue-landing-role.json", "s3-tables-role.json"])
def test_a_landing_role_reads_shares_and_lands_and_deletes_no_object(policy: str):
    documented = {
        f"{service}:{name}"
        for service, name in re.findall(r"`(kinesis|dynamodb):(\w+)`", RIGHTS)
        if name not in OPTIONAL
    }
    actions = actions_in(policy)
    assert {each for each in actions if each.startswith(("kinesis:", "dynamodb:"))} == documented
    assert {"s3:GetObject", "s3:PutObject", "s3:ListBucket"} <= actions
    assert not {each for each in actions if "Delete" in each} - {"dynamodb:DeleteItem"}


def test_the_upkeep_role_deletes_objects_and_reaches_no_stream():
    actions = actions_in("glue-upkeep-role.json")
    assert "s3:DeleteObject" in actions
    assert not {each for each in actions if each.startswith(("kinesis:", "dynamodb:"))}


def test_the_glue_policies_have_the_rights_that_operations_names_for_glue():
    named = set(re.findall(r"`(glue:\w+)`", RIGHTS))
    granted = actions_in("glue-landing-role.json") | actions_in("glue-upkeep-role.json")
    assert named == {each for each in granted if each.startswith("glue:")}


LANDING = (Role.LEADER, Role.WORKER, Role.SPARK)


@pytest.mark.parametrize(
    ("policy", "settings", "roles"),
    [
        ("glue-landing-role", "glue", LANDING),
        ("glue-upkeep-role", "glue", (Role.UPKEEP,)),
        ("s3-tables-role", "s3-tables", LANDING),
    ],
)
def test_the_policies_are_those_of_the_command(policy: str, settings: str, roles: tuple[Role, ...]):
    found = read_settings(str(FOLDER / f"{settings}.yaml"), {}).settings
    arns = ApplicationArns(found, account_of(found, number="123456789012"))
    assert json.loads((FOLDER / f"{policy}.json").read_text(encoding="utf-8")) == role_policy(roles, arns)
