"""What is done about a machine that was taken out: emptied, repaired, exchanged, proven, and put back."""
