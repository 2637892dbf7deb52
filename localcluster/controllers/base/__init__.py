"""What the controllers share: a client, a cache, a queue, events and readers of objects.

`client.CachedClient` is the entry point.
"""
