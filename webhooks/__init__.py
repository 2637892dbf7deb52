"""The admission webhooks: a review comes in, a rule of `api` judges it, an answer goes out."""
