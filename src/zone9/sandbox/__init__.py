"""A Proxmox VE to try zone9 against: strict about what is asked, honest about what would happen, and breakable.

It is an API server of our own over a state of our own; its rules are those that Proxmox's own code was recorded
with, and each cites its source. It listens on loopback only and is never imported by production code.
"""

from zone9.sandbox.durations import Durations
from zone9.sandbox.sandbox import Sandbox
from zone9.sandbox.serving import SandboxThread, serve

__all__ = ["Durations", "Sandbox", "SandboxThread", "serve"]
