"""Pictures of fitted models. matplotlib is imported when they are drawn."""
