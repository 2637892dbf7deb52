"""Write a decision to the cluster: reserve, prepare claims and volumes, create the Bindings.

`Binder` is the entry point.
"""
