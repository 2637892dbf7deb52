"""AdmissionReviews, read and answered."""
