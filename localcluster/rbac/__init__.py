"""RBAC: requests as attributes, roles and bindings, and the default roles."""
