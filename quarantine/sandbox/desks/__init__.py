"""Stand-ins for ticket systems, on loopback."""
