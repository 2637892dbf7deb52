"""Structural schemas: the effects of a CustomResourceDefinition's OpenAPI schema on an object.

Each module has one effect, in the API server's order: `pruning` drops unspecified fields,
`defaulting` sets missing fields, `validation` and `lists` check the values, `rules` evaluates the
CEL rules. `structural` validates the schema itself before use.
"""
