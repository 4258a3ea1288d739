"""Arguments of variables for copies on several devices."""

import enum


class VariableSynchronization(enum.Enum):
    """When to synchronize the copies of a variable. There is only one copy."""

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(enum.Enum):
    """How to aggregate the copies of a variable. There is only one copy."""

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)


def across_copies(name, trainable, synchronization, aggregation):
    """Checks the last three arguments and returns them with defaults."""
    if synchronization is None:
        synchronization = VariableSynchronization.AUTO
    if aggregation is None:
        aggregation = VariableAggregation.NONE
    if not isinstance(synchronization, VariableSynchronization):
        raise ValueError(f"Invalid variable synchronization mode: "
                         f"{synchronization} for variable: {name}")
    if not isinstance(aggregation, VariableAggregation):
        raise ValueError(f"Invalid variable aggregation mode: {aggregation} "
                         f"for variable: {name}")
    if trainable is None:
        trainable = (synchronization is not
                     VariableSynchronization.ON_READ)
    return trainable, synchronization, aggregation
