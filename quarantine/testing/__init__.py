"""Suites for those who write adapters. They need pytest; the controller never imports them."""
