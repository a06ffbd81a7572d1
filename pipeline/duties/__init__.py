"""Duties: code that carries out a plan through ports. It knows neither AWS nor Spark nor Dagster, and starts no
thread.
"""
