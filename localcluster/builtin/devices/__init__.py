"""The kinds of Dynamic Resource Allocation: claims, their templates, device classes, slices.

Fields whose feature gate is off in Kubernetes 1.36 are dropped, as there: list attributes and
mappings to node resources. What selectors cost is not estimated: the server refuses expressions
that are too expensive, this one does not.
"""
