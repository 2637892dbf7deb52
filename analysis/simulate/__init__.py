"""What would become of manifests: stored as an API server would store them, then decided on a copy.

`simulate.simulate` is the entry point.
"""
