"""The server and the credentials: from kubeconfig files and service accounts.

`loading` is the entry point.
"""
