"""Admission webhooks: match a request, call the webhooks and apply their responses.

`matching` selects the webhooks of a request, `review` implements the AdmissionReview protocol,
`calling` sends it over TLS, and `webhooks` combines them as a `hooks.Admission` step.
"""
