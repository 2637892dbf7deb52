"""The resource claim controller: it creates claims from templates, reserves and releases them."""
