"""What regressor and classifier have in common, from parameters to effects."""
