"""Messages of programs, on Python's own logging: the logger "sluice"."""

import logging as _logging
import sys as _sys

DEBUG, INFO, WARN, ERROR, FATAL = (
    _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR,
    _logging.CRITICAL)

_logger = _logging.getLogger("sluice")
if not _logger.handlers:
    _handler = _logging.StreamHandler(_sys.stderr)
    _handler.setFormatter(_logging.Formatter(
        "%(levelname)s:%(name)s:%(message)s"))
    _logger.addHandler(_handler)
    _logger.setLevel(WARN)
    _logger.propagate = False

debug = _logger.debug
info = _logger.info
warn = warning = _logger.warning
error = _logger.error
fatal = _logger.critical
log = _logger.log
vlog = _logger.log
set_verbosity = _logger.setLevel


def get_verbosity():
    """The least level that is shown."""
    return _logger.level


def flush():
    """Writes out what waits."""
    for handler in _logger.handlers:
        handler.flush()
