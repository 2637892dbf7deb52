"""CEL expressions of device selectors: parser and evaluator.

`selectors` is the entry point.
"""
