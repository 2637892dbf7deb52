"""Structural schemas: what a CustomResourceDefinition's OpenAPI schema does to an object.

One module an effect, in the order in which the API server applies them: `pruning` drops what the
schema does not name, `defaulting` fills what is missing, `validation` and `lists` check the values,
`rules` evaluates the CEL rules. `structural` checks the schema itself, before anything uses it.
"""
