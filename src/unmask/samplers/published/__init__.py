"""Published loops with their own names and defaults."""
