"""Frozen values, the search budget and words that all of the core shares."""
