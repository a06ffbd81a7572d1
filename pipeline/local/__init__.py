"""A stand-in for AWS on this machine: a simulator of Kinesis, and moto's DynamoDB, S3 and STS, on one loopback port.

Users get it for their own tests, too. Start it with `headrace local`, or use its pytest fixtures.
"""
