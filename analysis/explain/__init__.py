"""The reasons why a group waits, in numbers and words.

Entry point: `explain`.
"""
