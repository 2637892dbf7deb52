"""Generators of the typed clients in `clients/`, from the models of the API.

`python -m tools.clients DIRECTORY` writes `python/` and `go/` there.
"""
