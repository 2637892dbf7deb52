"""Admission webhooks: they decode a review, let `api` validate or complete it, and respond."""
