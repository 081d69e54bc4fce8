"""The controller's own judgement over history: which machines would have been taken out, when, and why."""
