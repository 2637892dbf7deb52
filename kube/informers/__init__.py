"""List and watch, and a cache of what was seen.

`Reflector` is the entry point.
"""
