"""The console's listeners: on this machine, or in the cluster for users with tokens.

`serving` is the entry point.
"""
