"""The `kube` client against complete API servers, whose behavior unit tests can only assume."""
