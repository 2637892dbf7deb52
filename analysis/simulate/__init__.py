"""The outcome of manifests: stored as an API server would store them, then decided on a copy.

Entry point: `simulate.simulate`.
"""
