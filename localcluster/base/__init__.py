"""Values, the store and the interfaces on which all other packages build.

`store.Store` and `hooks` are the entry points.
"""
