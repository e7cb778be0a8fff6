"""Benchmarks: each figure beside a named baseline from the same run. Nothing here passes or fails."""
