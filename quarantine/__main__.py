"""`python -m quarantine`."""

from quarantine.cli.start import main

main()
