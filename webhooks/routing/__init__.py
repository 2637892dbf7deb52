"""The table of routes and the dispatch of reviews.

`Reviewer` is the entry point.
"""
