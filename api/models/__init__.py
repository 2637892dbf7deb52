"""The kinds as models, with a module for each version: the source of CRDs and `kubectl explain`.

They contain only types and descriptions. Required fields, bounds and unions are rules
(`api.rules`), so that a user gets all faults in one response; the descriptions state them for the
reader. Objects stay raw JSON at run time: writing one through a model would drop unknown fields.
"""
