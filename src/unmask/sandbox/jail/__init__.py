"""The keeper: a separate process that confines, watches and kills a program, and reports its result.

It is imported as the top-level package `jail`, with relative imports, because the import of `unmask` would add 30 ms to
each run. It uses only the standard library and ctypes.
"""
