"""The loop, the use cases that feed it, and the verdicts it reaches. It knows no product by name."""
