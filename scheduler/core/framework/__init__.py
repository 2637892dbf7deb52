"""Plugins that filter and score nodes, and the quotas that they compute.

Entry point: `framework.Framework`.
"""
