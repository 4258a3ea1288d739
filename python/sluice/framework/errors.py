"""Exceptions of failed steps, one class per error code."""

import re
import warnings


class OpError(Exception):
    """An error of a step. `op` is the operation that failed, if known."""

    def __init__(self, node_def, op, message, error_code=2):
        super().__init__(message)
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code

    @property
    def message(self):
        """The error message, with the node and the line that made it."""
        return self._message

    @property
    def op(self):
        """The Operation that failed, or None."""
        return self._op

    @property
    def node_def(self):
        """The NodeDef of that operation, or None."""
        return self._node_def

    @property
    def error_code(self):
        """The error code."""
        return self._error_code

    def __str__(self):
        return self._message

    def __reduce__(self):
        return type(self), (None, None, self._message), {
            "_error_code": self._error_code}


OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED = range(5)
NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED = range(5, 9)
FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED = range(9, 13)
INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = range(13, 17)

_CLASSES = {}


def _declare(name, code, doc):
    def __init__(self, node_def, op, message, error_code=code):
        OpError.__init__(self, node_def, op, message, error_code)

    made = type(name, (OpError,), {"__init__": __init__, "__doc__": doc,
                                   "__module__": __name__})
    _CLASSES[code] = made
    return made


CancelledError = _declare("CancelledError", CANCELLED,
                          "Raised if the session of a step is closed.")
UnknownError = _declare("UnknownError", UNKNOWN, "An unknown error.")
InvalidArgumentError = _declare(
    "InvalidArgumentError", INVALID_ARGUMENT,
    "Raised if an operation gets invalid values.")
DeadlineExceededError = _declare(
    "DeadlineExceededError", DEADLINE_EXCEEDED,
    "Raised if a step exceeds its time limit.")
NotFoundError = _declare("NotFoundError", NOT_FOUND,
                         "Raised if a requested object does not exist.")
AlreadyExistsError = _declare("AlreadyExistsError", ALREADY_EXISTS,
                              "Raised if an object to be created exists.")
PermissionDeniedError = _declare("PermissionDeniedError", PERMISSION_DENIED,
                                 "Raised if the caller lacks permission.")
ResourceExhaustedError = _declare("ResourceExhaustedError", RESOURCE_EXHAUSTED,
                                  "Raised if memory, for example, runs out.")
FailedPreconditionError = _declare(
    "FailedPreconditionError", FAILED_PRECONDITION,
    "Raised for an invalid state, such as an uninitialized variable.")
AbortedError = _declare("AbortedError", ABORTED,
                        "Raised if a step is aborted; a retry may succeed.")
OutOfRangeError = _declare("OutOfRangeError", OUT_OF_RANGE,
                           "Raised at the end, as of a closed, empty queue.")
UnimplementedError = _declare("UnimplementedError", UNIMPLEMENTED,
                              "Raised if there is no kernel.")
InternalError = _declare("InternalError", INTERNAL,
                         "Raised if an invariant is violated.")
UnavailableError = _declare("UnavailableError", UNAVAILABLE,
                            "Raised if a task is unreachable.")
DataLossError = _declare("DataLossError", DATA_LOSS,
                         "Raised for irrecoverable data loss.")
UnauthenticatedError = _declare("UnauthenticatedError", UNAUTHENTICATED,
                                "Raised if the caller is not identified.")


def exception_type_from_error_code(error_code):
    """Returns the exception class of an error code."""
    return _CLASSES.get(error_code, UnknownError)


def error_code_from_exception_type(cls):
    """Returns the error code of an exception class."""
    for code, known in _CLASSES.items():
        if known is cls:
            return code
    warnings.warn("Unknown class exception")
    return UNKNOWN


_NODE = re.compile(r"node '([^']+)' \(")


_wording = None


def _set_wording(function):
    """Sets the function that rewrites the messages of errors."""
    global _wording
    _wording = function


def _worded(message):
    return message if _wording is None else _wording(message)


def _inputs(op):
    """Describes the inputs of an op: "; inputs 'a' (Const) at x.py:3, ..."."""
    return "; inputs " + ", ".join(
        t.op._describe().removeprefix("node ") for t in op.inputs[:8])


def _from_status(code, message, graph):
    """Makes the exception for a Status of the library; _core raises it."""
    found = _NODE.search(message)
    op = graph._find_operation(found.group(1)) if found and graph else None
    if code == INVALID_ARGUMENT and op is not None and len(op.inputs) > 1 and (
            "; inputs '" not in message):  # Mostly a mismatch of shapes.
        message += _inputs(op)
    return exception_type_from_error_code(code)(
        None if op is None else op.node_def, op, _worded(message))
