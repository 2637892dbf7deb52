"""Values, the store and the interfaces that all other packages build on.

`store.Store` and `hooks` are the entry points.
"""
