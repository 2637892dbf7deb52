"""The fields of the kinds: their decoding, merge rules, OpenAPI and the schema of JobSets.

They are written in a short notation (see `notation`): those of the built-in kinds in
kubernetes.txt, which `generate` creates from upstream's OpenAPI, those of JobSets in `jobset`.
"""
