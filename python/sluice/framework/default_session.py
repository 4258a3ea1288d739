"""The default session of each thread."""

import threading

_stack = threading.local()


def get_default_session():
    """Returns the session of the innermost `with session:` of this thread, or
    None."""
    sessions = getattr(_stack, "sessions", None)
    return sessions[-1] if sessions else None


class AsDefault:
    """The context manager of `Session.as_default`."""

    def __init__(self, session):
        self._session = session

    def __enter__(self):
        if not hasattr(_stack, "sessions"):
            _stack.sessions = []
        _stack.sessions.append(self._session)
        return self._session

    def __exit__(self, *unused):
        if not _stack.sessions or _stack.sessions[-1] is not self._session:
            raise AssertionError("Nesting violated for default stack of "
                                 "sessions")
        _stack.sessions.pop()


def forget(session):
    """Removes a session from the stack of default sessions."""
    sessions = getattr(_stack, "sessions", [])
    if session in sessions:
        sessions.remove(session)
