"""The paper as a table of claims, and a judge that compares each with recorded measurements."""
