"""From the store to numbers: tidy tables and statistics."""
