"""CustomResourceDefinitions, and the kinds that they define.

`crd.CustomResources` is the entry point.
"""
