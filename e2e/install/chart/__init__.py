"""The Helm chart: what it renders, beside `manifests/`, and what Helm makes of it in a cluster."""
