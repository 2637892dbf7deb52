"""Admission webhooks: a review comes in, `api` validates or completes it, an answer goes out."""
