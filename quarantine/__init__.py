"""Node health and quarantine controller for GPU training fleets."""

__version__ = "0.1.0"
