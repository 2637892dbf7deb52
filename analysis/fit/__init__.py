"""The answer whether workloads would fit now: where, after which evictions, or why not.

Entry point: `fit.fit`. `fit.answers` decides on a given state, such as the live one of the console.
"""
