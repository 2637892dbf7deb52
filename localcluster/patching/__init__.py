"""JSON patch, merge patch, strategic merge patch and server-side apply.

`patch`, `strategic` and `managed_fields` are the entry points.
"""
