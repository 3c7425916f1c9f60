"""Splines of equal shape and the squared error: the case with a faster algorithm."""

from __future__ import annotations

from .._device.arrays import namespace
from .batch import Settings, Training
from .boosting import check_method
