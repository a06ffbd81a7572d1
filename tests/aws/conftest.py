from tests.aws.lease_table import table

__all__ = ["table"]
