"""The manifests that the package carries, and the chart made from them."""
