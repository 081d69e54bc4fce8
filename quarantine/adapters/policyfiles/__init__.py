"""Policies, signals and the fleet, from YAML files."""
