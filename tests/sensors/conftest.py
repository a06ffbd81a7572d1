from tests.dagster.fixtures import definitions_module, make_instance, make_world, migrations_are_read_once

__all__ = ["definitions_module", "make_instance", "make_world", "migrations_are_read_once"]
