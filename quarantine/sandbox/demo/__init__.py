"""The main job before your eyes: `quarantine demo`."""
