"""What a cell of a sweep measures: a metric is a function with a name."""
