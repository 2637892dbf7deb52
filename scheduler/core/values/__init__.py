"""Frozen values, the search budget and message fragments that all of the core shares.

Entry point: `model`.
"""
