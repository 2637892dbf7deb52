"""Work queue and workers, rate limits of namespaces, and the annotation for owners.

`controller` is the entry point.
"""
