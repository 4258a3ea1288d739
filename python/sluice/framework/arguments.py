"""Arguments with an old and a new name."""


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    """Returns the value of an argument with two names; ValueError if both are
    given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value
