"""The kinds of Dynamic Resource Allocation: claims, their templates, device classes, slices.

As upstream, fields whose feature gate is off in Kubernetes 1.36 are dropped: list attributes and
mappings to node resources. The cost of selectors is not estimated: the API server rejects
expressions that are too expensive, this server does not.
"""
