"""One file for each kind that has groups: which groups it wants, and what it is told.

`base` has what they share.
"""
