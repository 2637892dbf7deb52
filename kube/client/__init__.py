"""Requests to an API server.

`Client` is the entry point.
"""
