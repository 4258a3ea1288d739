"""Names of nodes within scopes."""

import re


def within(scope):
    """What the names within a scope ("a", "a/") begin with."""
    return scope.rstrip("/") + "/"


def strip_name_scope(name, export_scope):
    """A name ("^scope/x", "loc:@scope/x") without a scope."""
    if not export_scope:
        return name
    return re.sub(rf"^(\^|loc:@|){re.escape(within(export_scope))}/*", r"\1",
                  name)
