"""`tf.logging`, which uses the logger "sluice" of Python's `logging`."""

import collections as _collections
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
    """Returns the lowest level that is logged."""
    return _logger.level


def flush():
    """Writes buffered messages."""
    for handler in _logger.handlers:
        handler.flush()


_counts = _collections.Counter()  # The number of calls by line of the program.


def _count():
    frame = _sys._getframe(2)
    line = frame.f_code.co_filename, frame.f_lineno
    _counts[line] += 1
    return _counts[line] - 1


def log_if(level, msg, condition, *args):
    """Logs if the condition holds."""
    if condition:
        log(level, msg, *args)


def log_every_n(level, msg, n, *args):
    """Logs the first call at this line, and every n-th."""
    log_if(level, msg, _count() % n == 0, *args)


def log_first_n(level, msg, n, *args):
    """Logs the first n calls at this line."""
    log_if(level, msg, _count() < n, *args)
