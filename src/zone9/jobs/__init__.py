"""The engine: Procrastinate's worker in a process of its own, the heartbeat that ends it, the sweeper.

It runs what `wiring` registered, and knows neither products nor Proxmox.
"""
