"""What the fields of the kinds are: for `kubectl explain`, and for the schema of JobSets.

The kinds are written down in a short notation (see `notation`), one text for each family.
"""
