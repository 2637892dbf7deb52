"""Clients of the API server: the console, and `kube`."""
