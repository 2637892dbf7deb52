"""Informer caches of the controllers.

`informers` is the entry point.
"""
