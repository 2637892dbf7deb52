"""The listening side: TLS, URLs, bodies, and what is served besides objects.

`server` answers requests; `serving` listens.
"""
