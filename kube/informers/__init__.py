"""List and watch, and a cache of the objects.

`Reflector` is the entry point.
"""
