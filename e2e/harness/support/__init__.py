"""Common helpers of the end-to-end suites: certificates, kubeconfigs, a raw HTTP client."""
