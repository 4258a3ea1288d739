"""Streaming metrics, which accumulate over the steps of an evaluation.

Each returns (value, update). They accumulate in local variables, which are also
in METRIC_VARIABLES; `tf.local_variables_initializer` resets them.
"""

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.framework.elements import require_same_shape
from sluice.framework.graph import GraphKeys
from sluice.ops import (
    array_ops, check_ops, math_ops, scatters, variables)
from sluice.ops import weights as _weights
from sluice.ops.confusion_matrix import confusion_matrix
from sluice.ops.control_flow import cond
from sluice.ops.variable_scope import variable_scope

_float32 = _weights.float32
_EPSILON = 1e-7


def metric_variable(shape, dtype, validate_shape=True, name=None):
    """Creates a variable of zeros in which a metric accumulates."""
    return variables.Variable(
        lambda: array_ops.zeros(shape, dtype), trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape, name=name)


def _remove_squeezable_dimensions(predictions, labels, weights):
    """Converts all three to tensors of matching ranks.

    Adds or removes a last dimension of size 1 where ranks differ by one.
    """
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = _weights.remove_squeezable_dimensions(
            labels, predictions)
        require_same_shape(predictions, labels)
    if weights is None:
        return predictions, labels, None
    weights = convert_to_tensor(weights)
    n, m = weights.shape.ndims, predictions.shape.ndims
    if n == 0:
        return predictions, labels, weights
    if None not in (n, m):
        if n - m == 1:
            weights = array_ops.squeeze(weights, [-1])
        elif m - n == 1:
            weights = array_ops.expand_dims(weights, -1)
        return predictions, labels, weights
    diff = array_ops.rank(weights) - array_ops.rank(predictions)
    w = weights
    is_scalar = math_ops.equal(array_ops.rank(w), 0)
    squeezed = (lambda: array_ops.squeeze(w, [-1])
                if _weights.may_squeeze(w) else w)
    weights = cond(is_scalar, lambda: w, lambda: cond(
        math_ops.equal(diff, 1), squeezed,
        lambda: cond(math_ops.equal(diff, -1),
                     lambda: array_ops.expand_dims(w, -1), lambda: w)))
    return predictions, labels, weights


def _collected(value, update, metrics_collections, updates_collections):
    if metrics_collections:
        graphs.add_to_collections(metrics_collections, value)
    if updates_collections:
        graphs.add_to_collections(updates_collections, update)
    return value, update


def _ratio(total, count, name):
    return math_ops.div_no_nan(total, math_ops.maximum(count, 0), name=name)


def _safe_scalar_div(numerator, denominator, name):
    return math_ops.div_no_nan(numerator, denominator, name=name)


def _aggregate_variable(v, collections):
    value = array_ops.identity(v)
    if collections:
        graphs.add_to_collections(collections, value)
    return value


def mean(values, weights=None, metrics_collections=None,
         updates_collections=None, name=None):
    """Computes the mean of all values so far.

    Args:
      values: the values of this step.
      weights: the weights of the values, or None.
      metrics_collections, updates_collections: the collections for the value
        and for the update.
      name: the variable scope.
    """
    with variable_scope(name, "mean", [values, weights]):
        values = _float32(values)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            n = _float32(array_ops.size(values))
        else:
            values, _, weights = _remove_squeezable_dimensions(
                values, None, weights)
            weights = _weights.broadcast_weights(_float32(weights), values)
            values = math_ops.multiply(values, weights)
            n = math_ops.reduce_sum(weights)
        more = variables.assign_add(total, math_ops.reduce_sum(values))
        with graphs.control_dependencies([values]):
            counted = variables.assign_add(count, n)
        return _collected(_ratio(total, count, "value"),
                          _ratio(more, counted, "update_op"),
                          metrics_collections, updates_collections)


def mean_tensor(values, weights=None, metrics_collections=None,
                updates_collections=None, name=None):
    """Computes the elementwise mean of all values so far."""
    with variable_scope(name, "mean", [values, weights]):
        values = _float32(values)
        total = metric_variable(values.shape, dtypes.float32,
                                name="total_tensor")
        count = metric_variable(values.shape, dtypes.float32,
                                name="count_tensor")
        n = array_ops.ones_like(values)
        if weights is not None:
            values, _, weights = _remove_squeezable_dimensions(
                values, None, weights)
            weights = _weights.broadcast_weights(_float32(weights), values)
            values, n = math_ops.multiply(values, weights), n * weights
        more = variables.assign_add(total, values)
        with graphs.control_dependencies([values]):
            counted = variables.assign_add(count, n)
        return _collected(_ratio(total, count, "value"),
                          _ratio(more, counted, "update_op"),
                          metrics_collections, updates_collections)


def accuracy(labels, predictions, weights=None, metrics_collections=None,
             updates_collections=None, name=None):
    """Computes the fraction of predictions that equal the labels."""
    predictions, labels, weights = _remove_squeezable_dimensions(
        predictions, labels, weights)
    if labels.dtype != predictions.dtype:
        predictions = math_ops.cast(predictions, labels.dtype)
    right = _float32(math_ops.equal(predictions, labels))
    return mean(right, weights, metrics_collections, updates_collections,
                name or "accuracy")


def percentage_below(values, threshold, weights=None, metrics_collections=None,
                     updates_collections=None, name=None):
    """Computes the fraction of values below a threshold."""
    return mean(_float32(math_ops.less(values, threshold)), weights,
                metrics_collections, updates_collections,
                name or "percentage_below_threshold")


# ---- Errors ------------------------------------------------------------------


def _of_error(label, error, doc):
    def metric(labels, predictions, weights=None, metrics_collections=None,
               updates_collections=None, name=None):
        predictions, labels, weights = _remove_squeezable_dimensions(
            predictions, labels, weights)
        return mean(error(predictions, labels), weights, metrics_collections,
                    updates_collections, name or label)
    metric.__name__, metric.__doc__ = label, doc
    return metric


mean_absolute_error = _of_error(
    "mean_absolute_error", lambda p, l: math_ops.abs(p - l),
    "Computes the mean of |predictions - labels|.")
mean_squared_error = _of_error(
    "mean_squared_error", math_ops.squared_difference,
    "Computes the mean of (predictions - labels)^2.")


def root_mean_squared_error(labels, predictions, weights=None,
                            metrics_collections=None, updates_collections=None,
                            name=None):
    """Computes the root of the mean of (predictions - labels)^2."""
    value, update = mean_squared_error(labels, predictions, weights, None, None,
                                       name or "root_mean_squared_error")
    return _collected(math_ops.sqrt(value), math_ops.sqrt(update),
                      metrics_collections, updates_collections)


def mean_relative_error(labels, predictions, normalizer, weights=None,
                        metrics_collections=None, updates_collections=None,
                        name=None):
    """Computes the mean of |predictions - labels| / normalizer."""
    predictions, labels, weights = _remove_squeezable_dimensions(
        predictions, labels, weights)
    predictions, normalizer = _weights.remove_squeezable_dimensions(
        predictions, normalizer)
    error = math_ops.div_no_nan(math_ops.abs(labels - predictions),
                                convert_to_tensor(normalizer))
    return mean(error, weights, metrics_collections, updates_collections,
                name or "mean_relative_error")


def mean_cosine_distance(labels, predictions, dim, weights=None,
                         metrics_collections=None, updates_collections=None,
                         name=None):
    """Computes 1 - mean(labels . predictions) along a dimension."""
    predictions, labels, weights = _remove_squeezable_dimensions(
        predictions, labels, weights)
    products = math_ops.reduce_sum(math_ops.multiply(predictions, labels),
                                   [dim], keepdims=True)
    value, update = mean(products, weights, None, None,
                         name or "mean_cosine_distance")
    return _collected(1.0 - value, 1.0 - update, metrics_collections,
                      updates_collections)


# ---- Counts of correct and incorrect predictions -----------------------------


# (metric name, counted label, counted prediction) by kind.
_COUNTS = {"tp": ("true_positives", True, True),
           "fn": ("false_negatives", True, False),
           "tn": ("true_negatives", False, False),
           "fp": ("false_positives", False, True)}


def _count(holds, weights, metrics_collections, updates_collections):
    """Counts true values, with weights."""
    count = metric_variable([], dtypes.float32, name="count")
    values = _float32(holds)
    if weights is not None:
        weights = convert_to_tensor(weights)
        with graphs.control_dependencies([check_ops.assert_rank_in(
                weights, (0, array_ops.rank(values)))]):
            values = math_ops.multiply(values, _float32(weights))
    return _collected(
        array_ops.identity(count),
        variables.assign_add(count, math_ops.reduce_sum(values)),
        metrics_collections, updates_collections)


def _counter(label, of_label, of_prediction, doc):
    def metric(labels, predictions, weights=None, metrics_collections=None,
               updates_collections=None, name=None):
        with variable_scope(name, label, [predictions, labels, weights]):
            predictions, labels, weights = _remove_squeezable_dimensions(
                math_ops.cast(predictions, dtypes.bool_),
                math_ops.cast(labels, dtypes.bool_), weights)
            both = math_ops.logical_and(
                math_ops.equal(labels, of_label),
                math_ops.equal(predictions, of_prediction))
            return _count(both, weights, metrics_collections,
                          updates_collections)
    metric.__name__, metric.__doc__ = label, doc
    return metric


true_positives = _counter(*_COUNTS["tp"],
                          "Counts the true positives.")
true_negatives = _counter(*_COUNTS["tn"],
                          "Counts the true negatives.")
false_positives = _counter(*_COUNTS["fp"],
                           "Counts the false positives.")
false_negatives = _counter(*_COUNTS["fn"],
                           "Counts the false negatives.")


def _share(label, other, doc):
    """Makes the metric true positives / (true positives + others)."""
    def metric(labels, predictions, weights=None, metrics_collections=None,
               updates_collections=None, name=None):
        with variable_scope(name, label, [predictions, labels, weights]):
            predictions, labels, weights = _remove_squeezable_dimensions(
                math_ops.cast(predictions, dtypes.bool_),
                math_ops.cast(labels, dtypes.bool_), weights)
            right, more_right = true_positives(labels, predictions, weights)
            wrong, more_wrong = other(labels, predictions, weights)
            return _collected(
                math_ops.div_no_nan(right, right + wrong, name="value"),
                math_ops.div_no_nan(more_right, more_right + more_wrong,
                                    name="update_op"),
                metrics_collections, updates_collections)
    metric.__name__, metric.__doc__ = label, doc
    return metric


precision = _share("precision", false_positives,
                   "Computes the fraction of positives that are true.")
recall = _share("recall", false_negatives,
                "Computes the fraction of true labels that are predicted.")


# ---- Metrics at thresholds ---------------------------------------------------

def _confusion_matrix_at_thresholds(labels, predictions, thresholds,
                                    weights=None, includes=None):
    """Returns ({kind: counts}, {kind: updated counts}) per threshold."""
    predictions = _float32(predictions)
    with graphs.control_dependencies([
            check_ops.assert_greater_equal(
                predictions, 0.0, message="predictions must be in [0, 1]"),
            check_ops.assert_less_equal(
                predictions, 1.0, message="predictions must be in [0, 1]")]):
        predictions, labels, weights = _remove_squeezable_dimensions(
            array_ops.identity(predictions),
            math_ops.cast(labels, dtypes.bool_), weights)
    predicted = math_ops.greater(
        array_ops.reshape(predictions, [1, -1]),
        array_ops.expand_dims(constant(list(thresholds), dtypes.float32), 1))
    true = array_ops.reshape(labels, [1, -1])
    if weights is not None:
        weights = array_ops.reshape(_weights.broadcast_weights(
            _float32(weights), predictions), [1, -1])
    values, updates = {}, {}
    for kind in includes or _COUNTS:
        name, of_label, of_prediction = _COUNTS[kind]
        count = metric_variable([len(thresholds)], dtypes.float32, name=name)
        holds = _float32(math_ops.logical_and(
            math_ops.equal(true, of_label),
            math_ops.equal(predicted, of_prediction)))
        if weights is not None:
            holds = holds * weights
        values[kind] = array_ops.identity(count)
        updates[kind] = variables.assign_add(count,
                                             math_ops.reduce_sum(holds, 1))
    return values, updates


def _threshold_metric(label, which, compute, doc):
    def metric(labels, predictions, thresholds, weights=None,
               metrics_collections=None, updates_collections=None, name=None):
        with variable_scope(name, label, [predictions, labels, weights]):
            values, updates = _confusion_matrix_at_thresholds(
                labels, predictions, thresholds, weights, which)
            return _collected(compute(values), compute(updates),
                              metrics_collections, updates_collections)
    metric.__name__, metric.__doc__ = label, doc
    return metric


true_positives_at_thresholds = _threshold_metric(
    "true_positives", ("tp",), lambda c: c["tp"],
    "Counts the true positives at each threshold.")
false_negatives_at_thresholds = _threshold_metric(
    "false_negatives", ("fn",), lambda c: c["fn"],
    "Counts the false negatives at each threshold.")
true_negatives_at_thresholds = _threshold_metric(
    "true_negatives", ("tn",), lambda c: c["tn"],
    "Counts the true negatives at each threshold.")
false_positives_at_thresholds = _threshold_metric(
    "false_positives", ("fp",), lambda c: c["fp"],
    "Counts the false positives at each threshold.")
precision_at_thresholds = _threshold_metric(
    "precision_at_thresholds", ("tp", "fp"),
    lambda c: c["tp"] / (_EPSILON + c["tp"] + c["fp"]),
    "Computes the precision at each threshold.")
recall_at_thresholds = _threshold_metric(
    "recall_at_thresholds", ("tp", "fn"),
    lambda c: c["tp"] / (_EPSILON + c["tp"] + c["fn"]),
    "Computes the recall at each threshold.")


def _thresholds(n):
    """Returns `n` thresholds from just below 0 to just above 1."""
    return ([-_EPSILON] + [(i + 1) / (n - 1) for i in range(n - 2)] +
            [1.0 + _EPSILON])


def _pr_area(counts):
    """Computes the area under the precision-recall curve.

    It interpolates as in Davis and Goadrich (2006), because precision is not
    linear between points.
    """
    tp, fp, fn = (counts[k] for k in ("tp", "fp", "fn"))
    gained = tp[:-1] - tp[1:]
    found = tp + fp
    slope = math_ops.div_no_nan(
        gained, math_ops.maximum(found[:-1] - found[1:], 0))
    intercept = tp[1:] - slope * found[1:]
    both = math_ops.logical_and(found[:-1] > 0, found[1:] > 0)
    ratio = array_ops.where(
        both, math_ops.div_no_nan(found[:-1], math_ops.maximum(found[1:], 0)),
        array_ops.ones_like(found[1:]))
    return math_ops.reduce_sum(math_ops.div_no_nan(
        slope * (gained + intercept * math_ops.log(ratio)),
        math_ops.maximum(tp[1:] + fn[1:], 0)))


def auc(labels, predictions, weights=None, num_thresholds=200,
        metrics_collections=None, updates_collections=None, curve="ROC",
        name=None, summation_method="trapezoidal", thresholds=None):
    """Computes the area under a curve over all thresholds.

    Args:
      curve: "ROC", the true positive rate over the false positive rate, or
        "PR", precision over recall.
      num_thresholds: the number of points that approximate the curve.
      summation_method: "trapezoidal", "minoring", "majoring" or, for "PR",
        "careful_interpolation".
      thresholds: the thresholds in [0, 1], instead of `num_thresholds`.
    """
    with variable_scope(name, "auc", [labels, predictions, weights]):
        if curve not in ("ROC", "PR"):
            raise ValueError(f"curve must be either ROC or PR. Curve {curve} "
                             f"is unknown.")
        methods = ("trapezoidal", "minoring", "majoring",
                   "careful_interpolation")
        if summation_method not in methods or (
                curve == "ROC" and summation_method == methods[3]):
            raise ValueError(f"Invalid summation_method: {summation_method} "
                             f"for {curve} curve")
        at = _thresholds(num_thresholds) if thresholds is None else (
            [-_EPSILON] + sorted(thresholds) + [1.0 + _EPSILON])

        def area(counts):
            if summation_method == "careful_interpolation":
                return _pr_area(counts)
            tp, fp, tn, fn = (counts[k] for k in ("tp", "fp", "tn", "fn"))
            found = (tp + _EPSILON) / (tp + fn + _EPSILON)
            if curve == "ROC":
                x, y = fp / (fp + tn + _EPSILON), found
            else:
                x, y = found, (tp + _EPSILON) / (tp + fp + _EPSILON)
            width = x[:-1] - x[1:]
            height = {"trapezoidal": lambda a, b: (a + b) / 2.0,
                      "minoring": math_ops.minimum,
                      "majoring": math_ops.maximum}[summation_method]
            return math_ops.reduce_sum(width * height(y[:-1], y[1:]))

        values, updates = _confusion_matrix_at_thresholds(
            labels, predictions, at, weights, ("tp", "fn", "tn", "fp"))
        return _collected(area(values), area(updates), metrics_collections,
                          updates_collections)


def _best_at(label, wanted, given, top, last):
    """Makes the metric `wanted` where `given` is nearest to a target.

    Both are shares of counts. As in TensorFlow, the highest threshold is `top`,
    and of equally near thresholds the first or (if `last`) the last one is
    used.
    """
    def metric(labels, predictions, target, weights=None, num_thresholds=200,
               metrics_collections=None, updates_collections=None, name=None):
        if not 0 <= target <= 1:
            raise ValueError(f"{label}: expected a number in [0, 1], got "
                             f"{target}")
        with variable_scope(name, label, [predictions, labels, weights]):
            values, updates = _confusion_matrix_at_thresholds(
                labels, predictions, [*_thresholds(num_thresholds)[:-1], top],
                weights, ("tp", "fn", "tn", "fp"))

            def compute(c):
                def share(kinds):
                    right, wrong = kinds
                    return c[right] / (c[right] + c[wrong] + _EPSILON)
                away = math_ops.abs(share(given) - target)
                if last:
                    away = array_ops.reverse(away, [0])
                near = math_ops.argmin(away, 0)
                if last:
                    near = num_thresholds - 1 - near
                right, wrong = (c[k][math_ops.cast(near, dtypes.int32)]
                                for k in wanted)
                return right / (right + wrong + _EPSILON)
            return _collected(compute(values), compute(updates),
                              metrics_collections, updates_collections)
    return metric


_SENSITIVITY, _SPECIFICITY = ("tp", "fn"), ("tn", "fp")
_sensitivity_at = _best_at(
    "sensitivity_at_specificity", _SENSITIVITY, _SPECIFICITY, 1.0 + _EPSILON,
    False)
_specificity_at = _best_at(
    "specificity_at_sensitivity", _SPECIFICITY, _SENSITIVITY, 1.0 - _EPSILON,
    True)


def sensitivity_at_specificity(labels, predictions, specificity, weights=None,
                               num_thresholds=200, metrics_collections=None,
                               updates_collections=None, name=None):
    """Computes the sensitivity where the specificity is nearest to a value."""
    return _sensitivity_at(labels, predictions, specificity, weights,
                           num_thresholds, metrics_collections,
                           updates_collections, name)


def specificity_at_sensitivity(labels, predictions, sensitivity, weights=None,
                               num_thresholds=200, metrics_collections=None,
                               updates_collections=None, name=None):
    """Computes the specificity where the sensitivity is nearest to a value."""
    return _specificity_at(labels, predictions, sensitivity, weights,
                           num_thresholds, metrics_collections,
                           updates_collections, name)


# ---- Metrics per class -------------------------------------------------------


def mean_iou(labels, predictions, num_classes, weights=None,
             metrics_collections=None, updates_collections=None, name=None):
    """Computes the mean intersection over union of all classes."""
    with variable_scope(name, "mean_iou", [predictions, labels, weights]):
        require_same_shape(predictions, labels)
        total = metric_variable([num_classes, num_classes], dtypes.float64,
                                name="total_confusion_matrix")
        flat = [array_ops.reshape(math_ops.cast(x, dtypes.int64), [-1])
                for x in (labels, predictions)]
        if weights is not None:
            weights = array_ops.reshape(convert_to_tensor(weights), [-1])
        update = variables.assign_add(total, confusion_matrix(
            *flat, num_classes, weights=weights, dtype=dtypes.float64))
        whole = total.value()
        right = _float32(array_ops.diag_part(whole))
        union = _float32(math_ops.reduce_sum(whole, 0)) + _float32(
            math_ops.reduce_sum(whole, 1)) - right
        seen = math_ops.reduce_sum(_float32(math_ops.not_equal(union, 0)))
        value = math_ops.div_no_nan(
            math_ops.reduce_sum(math_ops.div_no_nan(right, union),
                                name="mean_iou"), seen)
        return _collected(value, update, metrics_collections,
                          updates_collections)


def mean_per_class_accuracy(labels, predictions, num_classes, weights=None,
                            metrics_collections=None, updates_collections=None,
                            name=None):
    """Computes the mean of the accuracies of all classes."""
    with variable_scope(name, "mean_accuracy", [predictions, labels, weights]):
        labels = array_ops.reshape(math_ops.cast(labels, dtypes.int64), [-1])
        predictions = array_ops.reshape(
            math_ops.cast(predictions, dtypes.int64), [-1])
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones = array_ops.ones([array_ops.size(labels)], dtypes.float32)
        right = _float32(math_ops.equal(labels, predictions))
        if weights is not None:
            weights = _float32(array_ops.reshape(convert_to_tensor(weights),
                                                 [-1]))
            ones, right = ones * weights, right * weights
        counted = scatters.scatter_add(count, labels, ones)
        more = scatters.scatter_add(total, labels, right)
        value = math_ops.reduce_mean(_ratio(total, count, "value"))
        update = _ratio(more, counted, "update_op")
        return _collected(value, update, metrics_collections,
                          updates_collections)
