"""The validation and defaulting rules of the built-in kinds.

`strategies.strategies` is the entry point.
"""
