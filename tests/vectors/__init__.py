"""Headrace's decisions compared with KCL's: `make vectors VECTORS=path` runs a file of cases through the product's own functions.

A file is {"graphs": ..., "vectors": [{id, fn, name, input, expected, source, note}]}. This package only builds inputs and formats outputs; every answer comes from `pipeline`.
"""
