"""The queue and its workers, the pace of each namespace, and what owners are told.

`controller` is the entry point.
"""
