"""A test that tries to catch zone9 lying: it compares what zone9 says with the sandbox's own state, after every step."""
