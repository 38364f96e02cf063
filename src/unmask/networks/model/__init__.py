"""The network itself: its shape, its trunk, its KV cache, its files, and the classes that transformers knows."""
