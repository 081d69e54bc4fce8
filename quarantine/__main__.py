"""`python -m quarantine`."""

from quarantine.cli.main import main

main()
