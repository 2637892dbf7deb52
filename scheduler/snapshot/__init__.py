"""The input of a decision as one file, written and read.

`snapshot.take` and `snapshot.restore` are the entry points.
"""
