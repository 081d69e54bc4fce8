"""Unit tests of policies: written histories, and what the one `plan()` must make of them, on a real Prometheus."""
