"""scikit-learn's conventions, for the estimators of every room."""
