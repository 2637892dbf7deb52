"""The fields of the kinds: how they are read and merged, `kubectl explain`, the schema of JobSets.

They are in a short notation (see `notation`): those of the built-in kinds in kubernetes.txt, which
`generate` makes from upstream's OpenAPI, those of JobSets in `jobset`.
"""
