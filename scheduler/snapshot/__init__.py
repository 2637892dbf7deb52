"""The input of a decision as one file, written and read.

`snapshot.capture` and `snapshot.load` are the entry points.
"""
