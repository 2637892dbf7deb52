"""What the Kubernetes API does, said once and tried on the embedded and on the real server.

Where the two differ, kube-apiserver is right.
"""
