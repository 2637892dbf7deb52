"""Decisions alone, on states that are made: times, memory, growth.

`decisions` is the entry point.
"""
