"""The manifests in the package, and the chart that is generated from them."""
