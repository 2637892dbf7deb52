"""Which server, and with which credentials: kubeconfig files and service accounts.

`loading` is the entry point.
"""
