"""What a fitted model says: effects, importance, terms, lengthscales, calibration, displays."""

import sitewise.estimators  # noqa: F401  imports the modules of this package, and must be complete before they are
