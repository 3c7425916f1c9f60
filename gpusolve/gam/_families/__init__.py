"""What families consist of: their base, offsets, and adaptive parameters."""
