"""One virtual machine: its config file, what may be done to it, and how each deed shows afterwards."""
