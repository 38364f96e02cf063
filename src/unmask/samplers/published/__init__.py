"""Published loops under the names and defaults that their users know."""
