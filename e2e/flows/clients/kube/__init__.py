"""The client of `kube` against whole API servers: what unit tests can only assume about them."""
