"""Volumes, their claims and classes, and where they can be used.

`VolumeTable` is the entry point.
"""
