"""Load, statistics and reports that the benchmarks share."""
