"""The files of `deploy` agree with the settings, tables and policies of the code, and every version in them is pinned."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.rows import Rows
from headrace.pipeline.cli import COMMANDS, _parser
from headrace.pipeline.cost.sizing import at_rest, flowing
from headrace.pipeline.errors import Throttled
from headrace.pipeline.iam.places import ApplicationArns, account_of
from headrace.pipeline.iam.policy import role_policy
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.local.__main__ import _REGION
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.choices import Create
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from tests.stand_in import a_table

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TERRAFORM = DEPLOY / "terraform"
PAGE = (ROOT / "docs" / "use" / "deploying.md").read_text(encoding="utf-8")
OURS = yaml.safe_load((ROOT / "dagster.yaml").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
HELM = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def locked(name: str) -> str:
    found = re.search(rf"^{re.escape(name)}==([\d.]+)", LOCK, re.MULTILINE)
    assert found, name
    return found[1]


def test_terraform_makes_the_tables_that_headrace_makes(
    aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "terraform-tables"
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"{{application: {name}, streams: [{{name: s}}], aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}}}"
    )
    monkeypatch.chdir(tmp_path)
    Adapters(read_settings(str(file), {}).settings).tables().ensure()
    client = aws.client("dynamodb")
    resources = json.loads((TERRAFORM / "tables.tf.json").read_text())["resource"]["aws_dynamodb_table"]
    for resource in resources.values():
        made = client.describe_table(TableName=resource["name"].replace("${var.application}", name))["Table"]
        assert made["KeySchema"] == [{"AttributeName": resource["hash_key"], "KeyType": "HASH"}]
        attributes = {each["AttributeName"]: each["AttributeType"] for each in made["AttributeDefinitions"]}
        assert attributes == {each["name"]: each["type"] for each in resource["attribute"]}
        assert made["BillingModeSummary"]["BillingMode"] == resource["billing_mode"]
        assert [index_of(each) for each in made.get("GlobalSecondaryIndexes", ())] == resource.get(
            "global_secondary_index", []
        )
    names = {each["name"] for each in resources.values()}
    settings = Settings(application="${var.application}")
    assert names == {settings.lease_table, settings.worker_table, settings.state_table}


def index_of(made: dict[str, Any]) -> dict[str, str]:
    keys = {each["KeyType"]: each["AttributeName"] for each in made["KeySchema"]}
    return {
        "name": made["IndexName"],
        "hash_key": keys["HASH"],
        "range_key": keys["RANGE"],
        "projection_type": made["Projection"]["ProjectionType"],
    }


@pytest.mark.parametrize("role", list(Role))
def test_the_policies_are_those_of_the_command(role: Role):
    settings = read_settings(str(DEPLOY / "headrace.yaml"), {}).settings
    places = ApplicationArns(settings, account_of(settings, number="123456789012"))
    assert json.loads((TERRAFORM / "policies" / f"{role}.json").read_text()) == role_policy([role], places)


def test_terraform_knows_the_roles_and_takes_their_policies_from_the_files():
    assert {each.stem for each in (TERRAFORM / "policies").iterdir()} == set(Role)
    variables = (TERRAFORM / "variables.tf").read_text()
    assert json.loads("[" + variables.partition("keys(var.trusted), [")[2].partition("]")[0] + "]") == list(
        Role
    )
    assert 'file("${path.module}/policies/${each.key}.json")' in (TERRAFORM / "roles.tf").read_text()


def test_terraform_makes_the_alarms_of_the_template_and_gives_it_each_parameter_that_has_no_default():
    stack = (TERRAFORM / "alarms.tf").read_text().partition('resource "aws_cloudformation_stack"')[2]
    named = re.search(r'template_body += file\("\$\{path.module\}/(.*)"\)', stack)
    assert named
    template = (TERRAFORM / named[1]).read_text()
    assert len(template.encode()) <= 51_200, "CloudFormation takes no longer template in a request"
    parameters = json.loads(template)["Parameters"]
    given = set(re.findall(r"([A-Z]\w+) += var\.|\{ ([A-Z]\w+) = var\.", stack)) - {("", "")}
    names = {first or second for first, second in given}
    assert names == {name for name, parameter in parameters.items() if "Default" not in parameter}
    variables = (TERRAFORM / "variables.tf").read_text()
    others = json.loads("[" + variables.partition("keys(var.alarm_parameters), [")[2].partition("]")[0] + "]")
    assert set(others) == set(parameters) - {"Stream", "Topic"}


def test_both_settings_files_are_accepted_and_only_one_lets_headrace_make_tables():
    found = {name: read_settings(str(DEPLOY / name), {}).settings for name in ("headrace.yaml", "local.yaml")}
    assert [each.coordination.create for each in found.values()] == [Create.NEVER, Create.AUTO]
    assert {len(each.workers) for each in found.values()} == {2}


def test_the_stand_in_of_compose_has_the_streams_of_the_region_of_its_settings():
    """The stand-in keeps regions apart, as AWS does, and prints the region in which it makes what nobody names a region for."""
    local = read_settings(str(DEPLOY / "local.yaml"), {}).settings
    assert local.aws.region == _REGION
    assert f"'kinesis', '{_REGION}', endpoint_url='{local.aws.endpoint}'" in PAGE


def test_dagsters_instance_is_the_tested_one_on_postgres():
    deployed = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
    assert deployed.pop("storage") == {"postgres": {"postgres_url": {"env": "DAGSTER_POSTGRES_URL"}}}
    assert deployed == {name: value for name, value in OURS.items() if name != "nux"} | (
        {"nux": OURS["nux"]} if "nux" in deployed else {}
    )


AS_IT_IS = "applyLimitPerUniqueValue"
"""The one name in dagster.yaml that Dagster spells as Helm does."""


def snake(value: Any) -> Any:
    """Helm's names in the form of dagster.yaml."""
    if isinstance(value, dict):
        return {name if name == AS_IT_IS else _snake(name): snake(one) for name, one in value.items()}
    return [snake(one) for one in value] if isinstance(value, list) else value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def test_the_values_for_helm_say_what_dagster_yaml_says():
    daemon = snake(HELM["dagsterDaemon"])
    assert daemon["run_coordinator"]["config"]["queued_run_coordinator"] == OURS["run_coordinator"]["config"]
    assert daemon["sensors"] == OURS["sensors"]
    assert daemon["run_monitoring"] == OURS["run_monitoring"]
    assert snake(HELM["retention"])["sensor"] == OURS["retention"]["sensor"]
    assert snake(HELM["pythonLogs"]) == OURS["python_logs"]
    assert HELM["telemetry"] == OURS["telemetry"]


def test_compose_has_its_services_and_nothing_listens_beyond_this_host():
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "code", "daemon", "web", "beat", "tables", "aws"}
    assert [port for each in services.values() for port in each.get("ports", ())] == ["127.0.0.1:3000:3000"]
    assert services["aws"]["network_mode"] == "service:code"
    passwords = [line for line in (DEPLOY / "compose.yaml").read_text().splitlines() if "PASSWORD" in line]
    assert all("${POSTGRES_PASSWORD:?" in line for line in passwords)


def test_each_service_of_compose_that_asks_aws_has_the_settings_and_the_keys_of_the_environment():
    """Only the daemon and the web server ask nothing of AWS: the code location does it for them."""
    for name in ("code", "beat", "tables"):
        service = COMPOSE["services"][name]
        assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} < set(
            service["environment"]
        ), name
        assert any(each.endswith(":/etc/headrace/headrace.yaml:ro") for each in service["volumes"]), name


@pytest.mark.parametrize("service", ["beat", "tables", "aws"])
def test_the_commands_of_headrace_in_compose_parse(service: str):
    program, *words = COMPOSE["services"][service]["command"]
    assert (program, words[0] in COMMANDS) == ("headrace", True)
    _parser(words[0]).parse_args(words)


def test_the_process_that_beats_has_the_image_and_the_settings_of_the_code_location():
    [deployment] = HELM["dagster-user-deployments"]["deployments"]
    pod = yaml.safe_load((DEPLOY / "helm" / "beat.yaml").read_text())["spec"]["template"]["spec"]
    [beat] = pod["containers"]
    assert beat["image"] == f"{deployment['image']['repository']}:{deployment['image']['tag']}"
    assert beat["env"] == [each for each in deployment["env"] if each["name"] == "HEADRACE_CONFIG"]
    assert (beat["volumeMounts"], pod["volumes"]) == (deployment["volumeMounts"], deployment["volumes"])
    assert (pod["securityContext"], beat["securityContext"]) == (
        deployment["podSecurityContext"],
        deployment["securityContext"],
    )
    program, *words = beat["command"]
    assert (program, words[0] in COMMANDS) == ("headrace", True)
    _parser(words[0]).parse_args(words)


def test_every_version_is_pinned():
    images = {each["image"] for each in COMPOSE["services"].values()} | set(
        re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    )
    assert all(re.search(r":\d+\.\d+", image) for image in images), images
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert {f"headrace:{version[1]}"} == {image for image in images if image.startswith("headrace:")}
    [deployment] = HELM["dagster-user-deployments"]["deployments"]
    assert deployment["image"]["tag"] == version[1]
    providers = re.findall(r'^ +version += "(.*)"', (TERRAFORM / "versions.tf").read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each) for each in providers)


def test_the_image_has_the_versions_of_the_lock():
    patch = locked("dagster").rpartition(".")[2]
    assert f"dagster-postgres=={locked('dagster-aws').rpartition('.')[0]}.{patch}" in DOCKERFILE
    assert f"version {locked('dagster')}" in (DEPLOY / "helm" / "values.yaml").read_text()
    assert re.search(r"^FROM python:3\.1[1-4]\.", DOCKERFILE, re.MULTILINE)
    assert "USER 10001" in DOCKERFILE


def test_javas_home_is_the_folder_that_the_installed_package_makes():
    """Debian's openjdk-17-jre-headless makes no /usr/lib/jvm/default-java: Spark would find no Java in the image."""
    installed = re.findall(r"apt-get install [^\n]*", DOCKERFILE)
    assert "JAVA_HOME=/usr/lib/jvm/default-java" in DOCKERFILE
    assert any("default-jre-headless" in line.split() for line in installed)
    assert "slim-bookworm" in DOCKERFILE, "the default Java of bookworm is 17"


def test_the_service_account_with_the_role_is_where_the_chart_takes_it_from():
    """The chart takes a deployment's own account only with a name, and other versions of it not at all: no pod would have the role."""
    account = HELM["dagster-user-deployments"]["serviceAccount"]
    pod = yaml.safe_load((DEPLOY / "helm" / "beat.yaml").read_text())["spec"]["template"]["spec"]
    assert account["create"] is True
    assert list(account["annotations"]) == ["eks.amazonaws.com/role-arn"]
    assert pod["serviceAccountName"] == account["name"]
    assert all("serviceAccount" not in each for each in HELM["dagster-user-deployments"]["deployments"])


def test_the_page_says_of_each_file_what_wasnt_run():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `deploy/")]
    assert sum("**Not " in row for row in rows) == 5
    named = set(re.findall(r"`(deploy/[\w/.]+)`", "".join(rows)))
    assert all((ROOT / each).exists() for each in named)


def test_the_sizing_table_is_that_of_the_formulas():
    settings = Settings(application="app")
    table = PAGE.partition("| shards | workers |")[2].partition("\n\n")[0]
    rows = [
        [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]
    assert len(rows) >= 4
    for shards, workers, deployments, *figures in rows:
        rest = at_rest(settings, shards=int(shards), workers=int(workers), deployments=int(deployments))
        flows = rest + flowing(settings, shards=int(shards), workers=int(workers))
        units = (rest.reads, rest.writes, flows.reads, flows.writes)
        assert figures == [*(f"{each:.1f}" for each in units), *map(str, flows.provisioned)]


def test_a_table_whose_capacity_is_short_is_named_with_the_remedy(aws: LocalAws, no_backoff: None):
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))
    table = a_table(client, "leaseKey")
    aws.inject("throttle", service="dynamodb", resource=table)
    with pytest.raises(Throttled, match=rf"{table}.*raise that of the table and of its index: see Sizing"):
        Rows(client, table, key="leaseKey").get("a")
