"""How the tests are run: what they cost, and what ends with them."""
