"""What can go wrong while a quantised model is made; every message says what to do about it.

QuantizeError
├── SourceMissingError    the package with the source model is not installed
├── CalibrationError      too few usable calibration rows
├── QualityError          the quantised model is measurably worse than the stated bounds, or broken
├── DiskSpaceError        not enough room for the build
└── FolderError           the target folder is in the way, or another build holds it for too long
"""

from __future__ import annotations


class QuantizeError(Exception):
    """Base of all errors of this package."""


class SourceMissingError(QuantizeError):
    """The package that holds the source model is not installed."""


class CalibrationError(QuantizeError):
    """Too few of the calibration rows are usable."""


class QualityError(QuantizeError):
    """The quantised model is broken, or worse than the stated bounds allow."""


class DiskSpaceError(QuantizeError):
    """There is not enough disk space for the build."""


class FolderError(QuantizeError):
    """The target folder holds something else, or another build has held it for too long."""
