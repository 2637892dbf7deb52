"""The certificates of the webhook server: own CA, server certificate, renewal, caBundle."""
