from tests.stand_in import aws, dynamodb

__all__ = ["aws", "dynamodb"]
