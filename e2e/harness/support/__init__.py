"""What the end-to-end suites share: certificates, kubeconfigs, a raw HTTP client."""
