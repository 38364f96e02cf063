"""Open models within the harnesses and engines of others: an extra is imported with its module, not with this."""
