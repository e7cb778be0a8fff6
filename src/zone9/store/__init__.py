"""Intent, truth and proofs in PostgreSQL. Every column has one writer: intent in `intents`, truth in `runs`."""
