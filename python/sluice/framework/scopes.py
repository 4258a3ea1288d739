"""Node names within scopes."""

import re


def within(scope):
    """Returns the prefix of the names within a scope ("a" or "a/")."""
    return scope.rstrip("/") + "/"


def strip_name_scope(name, export_scope):
    """Removes a scope from a name ("^scope/x", "loc:@scope/x")."""
    if not export_scope:
        return name
    return re.sub(rf"^(\^|loc:@|){re.escape(within(export_scope))}/*", r"\1",
                  name)
