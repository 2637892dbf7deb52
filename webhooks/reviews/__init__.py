"""AdmissionReviews and their responses."""
