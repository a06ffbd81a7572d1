from tests.aws.lease_table import table
from tests.stand_in import aws, dynamodb, kinesis, no_backoff

__all__ = ["aws", "dynamodb", "kinesis", "no_backoff", "table"]
