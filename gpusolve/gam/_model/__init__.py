"""The base of regressor and classifier: parameters, fits, predictions, effects."""
