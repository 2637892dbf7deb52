"""What the controllers watch and remember.

`informers` is the entry point.
"""
