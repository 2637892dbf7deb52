"""The Helm chart: its rendered objects compared to `manifests/`, and its releases in a cluster."""
