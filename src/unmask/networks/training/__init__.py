"""How networks learn the languages."""
