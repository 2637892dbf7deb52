"""The process that API servers call: listener, limits, registration, readiness.

`server` is the entry point.
"""
