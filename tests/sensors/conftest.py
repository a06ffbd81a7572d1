from tests.dagster.fixtures import definitions_module, make_instance, make_world

__all__ = ["definitions_module", "make_instance", "make_world"]
