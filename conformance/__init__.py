"""Conformance kit for gang schedulers: scenarios as data, a recorder, and a verdict.

It needs a kubeconfig and an adapter, which states a gang in the API of one scheduler, and imports
nothing of Muster. Entry point: `python -m conformance` (`__main__.py`).
"""
