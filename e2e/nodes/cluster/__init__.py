"""Real nodes on one machine: kubelets, containers and kube-proxy in namespaces of Linux.

`RealNodes` of `cluster` is the entry point; `python -m e2e.nodes.cluster.build` builds all
that it needs.
"""
