"""Arguments of variables about copies on several devices."""

import enum


class VariableSynchronization(enum.Enum):
    """When copies of a variable are synchronized: there is one copy."""

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(enum.Enum):
    """How copies of a variable are aggregated: there is one copy."""

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)


def across_copies(name, trainable, synchronization, aggregation):
    """Checks the last three arguments of a variable, and sets their
    defaults."""
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
