"""What an application costs: prices, the cost of a run, the sum of a day, and how large its tables' capacity has to be.

prices   the price table, which a user may replace by their own
spent    what a run has used, as Dagster keeps it, and its cost in words
days     the sum of the runs of a day
sizing   formulas for units of DynamoDB, by shards, workers and times
"""
