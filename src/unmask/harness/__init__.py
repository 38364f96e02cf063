"""Open models within the harnesses of others: the extra that each needs is imported with its module, not with this."""
