"""Controllers that create groups for their owners and delete trees of groups from the leaves up."""
