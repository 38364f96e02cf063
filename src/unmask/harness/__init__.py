"""Open models within the harnesses of others: an extra is imported with its module, not with this."""
