"""The command line: one file a command, each a thin function over the API."""
