"""The catalogue: regions, plans, images and SSH keys: what servers are made from."""
