"""Statuses of groups and pods: conditions, blockers, messages and events.

`reporter.Reporter` writes them.
"""
