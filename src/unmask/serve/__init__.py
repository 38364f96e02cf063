"""An OpenAI-compatible server for open models."""
