"""The HTTP side: TLS, URLs, bodies, and the documents other than objects.

`server` handles requests; `serving` listens.
"""
