"""The webhook's defaulting, rejections and exceptions."""
