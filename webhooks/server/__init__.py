"""The process that API servers ask: listeners, limits, registration, readiness.

`server` is the entry point.
"""
