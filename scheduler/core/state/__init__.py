"""The state that decisions read, kept up to date by events.

`State` is the entry point.
"""
