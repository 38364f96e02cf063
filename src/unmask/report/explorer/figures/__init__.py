"""The figures of the explorer: a module each, which the page finds by itself."""
