"""What everything may use: errors, ids, back-off, sealing. No domain word lives here."""
