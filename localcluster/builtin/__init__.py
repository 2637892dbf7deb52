"""The rules of the kinds that are built in.

`strategies.strategies` is the entry point.
"""
