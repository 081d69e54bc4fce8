"""Benchmarks on real servers: what a thing costs, beside what it cannot cost less than."""
