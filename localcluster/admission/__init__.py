"""Admission webhooks: which are asked about a request, how they are asked, and what follows.

`matching` decides, `review` speaks the AdmissionReview protocol, `calling` carries it over TLS,
`webhooks` puts them in order as hooks.Admission.
"""
