"""The pull protocol's messages, shared by the server and the agent. Standard library only; Python 3.9 or newer."""
