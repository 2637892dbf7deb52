"""The kinds as models, a module to a version: the source of the CRDs and of `kubectl explain`.

They hold types and descriptions only. What is required, bounds and unions are rules (`api.rules`),
so that a user gets all faults in one answer; the descriptions state them for the reader. Objects
at run time stay raw JSON: nothing is ever written back through a model, or unknown fields would
be lost.
"""
