"""What keeps a program in its jail: a process of its own, which confines, watches, kills and tells.

It is started as a package by itself, `jail`, which is why its modules import each other relatively: `unmask` and what
is installed would cost each run 30 ms and are nobody's business here. Standard library and ctypes alone.
"""
