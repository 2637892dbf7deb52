"""Which part answers which review.

`Reviewer` is the entry point.
"""
