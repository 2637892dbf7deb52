"""Why a group waits, in numbers and words.

`explain` is the entry point.
"""
