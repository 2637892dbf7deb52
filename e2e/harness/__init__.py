"""What the suites run on and share: clusters, Muster's processes, the environment of a test.

`environment.Environment` is the entry point.
"""
