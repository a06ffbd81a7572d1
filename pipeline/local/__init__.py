"""AWS on this machine: Kinesis simulated faithfully, DynamoDB, S3 and STS by moto, on one loopback port.

It is a simulator, part of what users get for their own CI. Start it with `headrace local`, or take the pytest fixtures.
"""
