"""Who may do what: requests as attributes, roles and bindings, and the roles of every cluster."""
