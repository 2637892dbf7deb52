"""The common base of the suites: clusters, Muster's processes, the environment of a test.

`environment.Environment` is the entry point.
"""
