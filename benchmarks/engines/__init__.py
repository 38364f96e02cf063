"""What published decoders write, measured with exact logits: `python -m benchmarks.engines --help`."""
