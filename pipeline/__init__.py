"""Headrace's engine: Kinesis streams into lake tables, every record exactly once."""
