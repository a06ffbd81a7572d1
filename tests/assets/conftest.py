from tests.dagster.fixtures import make_instance, make_world, migrations_are_read_once

__all__ = ["make_instance", "make_world", "migrations_are_read_once"]
