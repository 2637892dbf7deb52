"""The controllers' common parts: a client, a cache, a queue, events and object accessors.

`client.CachedClient` is the entry point.
"""
