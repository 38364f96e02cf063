"""Speed and memory against named peers, in one run: `make bench`, or one part with `python -m benchmarks.passes`."""
