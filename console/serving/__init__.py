"""The console's listeners: local, or in the cluster for users with tokens.

Entry point: `serving`.
"""
