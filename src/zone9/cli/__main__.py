"""Runs the command line: `python -m zone9.cli`."""

from zone9.cli import main

main()
