"""Our decisions beside KCL's: `make vectors VECTORS=path` runs a file of cases through the product's own functions.

A file is {"graphs": ..., "vectors": [{id, fn, name, input, expected, source, note}]}. What is here only builds
inputs and shapes outputs; every answer comes from `pipeline`.
"""
