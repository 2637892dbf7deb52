"""One file for each kind that has groups: its wanted groups, and the reports to its users.

`base` has the code that all kinds share.
"""
