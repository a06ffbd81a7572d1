"""Settings that travel in a resource's configuration come back as they were, and Dagster can show them."""

import json
from datetime import timedelta

from pipeline.settings import CoordinationSettings, Settings, StreamSettings
from pipeline.settings_choices import Billing, Create, Heartbeat, Layout, Mode
from resources.lease_tables import LeaseTablesResource


def test_every_kind_of_coordination_setting_survives_dagsters_configuration():
    said = CoordinationSettings(
        layout=Layout.S,
        mode=Mode.KCL_2,
        heartbeat=Heartbeat.LEASE,
        create=Create.NEVER,
        billing=Billing.PROVISIONED,
        read_capacity=7,
        kcl_failover=timedelta(seconds=30),
        allow_foreign_checkpoints=True,
        lease_table="leases",
        tags={"team": "data"},
    )
    resource = LeaseTablesResource.of(
        Settings(application="my-app", streams=(StreamSettings(name="s"),), coordination=said)
    )
    json.dumps(resource.coordination)
    assert resource._settings.coordination == said
