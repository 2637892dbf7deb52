"""Concurrency on one event loop: how long work gives way, and what is true after an `await`.

docs/design/event-loop.md has the rules.
"""
