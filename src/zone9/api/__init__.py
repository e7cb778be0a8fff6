"""The HTTP API of design section 7: it asks, shows and never drives. Routes come from the registry of products."""
