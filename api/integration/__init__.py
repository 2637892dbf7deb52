"""Requests for groups by owners of pods: admission of the owners, and their groups.

Pure functions.
"""
