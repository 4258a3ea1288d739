#!/usr/bin/env python3
"""Records 20 steps of TensorFlow's optimizers, with dense and sparse gradients,
its learning rates, clipping, moving averages, losses, metrics
and dynamic loss scale.

  record_training.py > training.tsv  (needs TensorFlow; seeded)

src/client/nn/training_record_test_util.h reads it. A line is a name, and values
separated by tabs: `name<TAB>key<TAB>numbers...`.

Where TensorFlow has no such optimizer in graph mode, Keras's is recorded, or
the formula of the paper in double precision (`formula` below).
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
STEPS = 20
SHOWN = (1, 2, 5, 10, 20)
R = np.random.RandomState(20160901)
W = R.normal(size=(6, 3)).round(3)
B = R.normal(size=(3,)).round(3)
DENSE = R.normal(size=(STEPS, 6, 3)).round(3)
BIAS = R.normal(size=(STEPS, 3)).round(3)
ROWS = R.normal(size=(STEPS, 4, 3)).round(3)
IDS = R.randint(0, 5, size=(STEPS, 4))  # Row 5 never, others repeatedly.


def line(name, key, values):
    values = np.asarray(values).ravel()
    print("\t".join([name, key] + [
        str(v) if values.dtype.kind == "i" else repr(float(v))
        for v in values]))


for key, value in (("w", W), ("b", B), ("dense", DENSE), ("bias", BIAS),
                   ("rows", ROWS), ("ids", IDS)):
    line("problem", key, value)


# ---- Optimizers of TensorFlow 1 ----------------------------------------------------

def optimizers():
    t = v1.train
    return {
        "sgd": lambda s: t.GradientDescentOptimizer(0.1),
        "momentum": lambda s: t.MomentumOptimizer(0.1, 0.9),
        "nesterov": lambda s: t.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "adagrad": lambda s: t.AdagradOptimizer(0.3, 0.2),
        "adagrad_da": lambda s: t.AdagradDAOptimizer(0.3, s, 0.2, 0.01, 0.02),
        "adadelta": lambda s: t.AdadeltaOptimizer(1.0, 0.9, 1e-4),
        "rmsprop": lambda s: t.RMSPropOptimizer(0.05, 0.8, 0.5, 1e-4),
        "rmsprop_centered": lambda s: t.RMSPropOptimizer(
            0.05, 0.8, 0.5, 1e-1, centered=True),
        "adam": lambda s: t.AdamOptimizer(0.05, 0.8, 0.95, 1e-4),
        "ftrl": lambda s: t.FtrlOptimizer(0.3, l1_regularization_strength=0.01,
                                          l2_regularization_strength=0.02),
        "ftrl_shrinkage": lambda s: t.FtrlOptimizer(
            0.3, -0.6, 0.2, 0.01, 0.02,
            l2_shrinkage_regularization_strength=0.03),
        "proximal_sgd": lambda s: t.ProximalGradientDescentOptimizer(
            0.1, 0.02, 0.03),
        "proximal_adagrad": lambda s: t.ProximalAdagradOptimizer(
            0.3, 0.2, 0.02, 0.03),
    }


def run(name, make, sparse, dtype, resource):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.Variable(0, trainable=False, dtype=tf.int64,
                           name="global_step", use_resource=resource)
        w = v1.Variable(W.astype(dtype), name="net/w", use_resource=resource)
        b = v1.Variable(B.astype(dtype), name="b", use_resource=resource)
        bias = v1.placeholder(dtype, [3])
        ids, rows = v1.placeholder(tf.int32, [4]), v1.placeholder(dtype, [4, 3])
        dense = v1.placeholder(dtype, [6, 3])
        grad = tf.IndexedSlices(rows, ids, [6, 3]) if sparse else dense
        train = make(step).apply_gradients([(grad, w), (bias, b)], step)
        session.run(v1.global_variables_initializer())
        key = "sparse" if sparse else "dense"
        for i in range(STEPS):
            session.run(train, {bias: BIAS[i], ids: IDS[i], rows: ROWS[i],
                                dense: DENSE[i]})
            if i + 1 in SHOWN:
                line(f"{name}.{key}.{dtype}", f"step{i + 1}", session.run(w))
        # All variables by name: what a checkpoint would have.
        for v in v1.global_variables():
            line(f"{name}.{key}.{dtype}", f"var:{v.op.name}",
                 session.run(v))


for name, make in optimizers().items():
    for sparse in (False, True):
        run(name, make, sparse, "float32", True)
        if name in ("momentum", "adam", "ftrl"):
            run(name, make, sparse, "float64", True)


# ---- The others ---------------------------------------------------------------------

def keras(name, optimizer):
    w = tf.Variable(W.astype("float32"))
    b = tf.Variable(B.astype("float32"))
    for i in range(STEPS):
        optimizer.apply_gradients([(tf.constant(DENSE[i], tf.float32), w),
                                   (tf.constant(BIAS[i], tf.float32), b)])
        if i + 1 in SHOWN:
            line(f"{name}.dense.float32", f"step{i + 1}", w.numpy())


RATE, B1, B2, EPS = 0.05, 0.8, 0.95, 1e-4
keras("amsgrad", tf.keras.optimizers.Adam(RATE, B1, B2, EPS, amsgrad=True))
keras("adamax", tf.keras.optimizers.Adamax(RATE, B1, B2, EPS))
# Keras multiplies the decay by the rate.
keras("adamw", tf.keras.optimizers.AdamW(RATE, 0.02 / RATE, B1, B2, EPS))


def formula(name, update, sparse):
    """Steps of update(t, w, slots, g, rows): `rows` have a gradient."""
    w, slots = W.copy(), {k: np.zeros_like(W) for k in ("m", "v", "vhat")}
    for i in range(STEPS):
        if sparse:
            g = np.zeros_like(W)
            np.add.at(g, IDS[i], ROWS[i])
            rows = np.unique(IDS[i])
        else:
            g, rows = DENSE[i], np.arange(len(W))
        update(i + 1, w, slots, g, rows)
        if i + 1 in SHOWN:
            line(f"{name}.{'sparse' if sparse else 'dense'}.float32",
                 f"step{i + 1}", w)


def corrected(t):
    return RATE * np.sqrt(1 - B2 ** t) / (1 - B1 ** t)


def moments(s, g, at):
    s["m"][at] = B1 * s["m"][at] + (1 - B1) * g[at]
    s["v"][at] = B2 * s["v"][at] + (1 - B2) * g[at] ** 2


def adam_at(at):
    def update(t, w, s, g, rows):
        rows = rows if at == "rows" else slice(None)
        moments(s, g, rows)
        w[rows] -= corrected(t) * s["m"][rows] / (np.sqrt(s["v"][rows]) + EPS)
    return update


def nadam(t, w, s, g, rows):
    moments(s, g, slice(None))
    w -= corrected(t) * (B1 * s["m"] + (1 - B1) * g) / (np.sqrt(s["v"]) + EPS)


def amsgrad(t, w, s, g, rows):
    moments(s, g, slice(None))
    s["vhat"][:] = np.maximum(s["vhat"], s["v"])
    w -= corrected(t) * s["m"] / (np.sqrt(s["vhat"]) + EPS)


def adamax(t, w, s, g, rows):
    s["m"][rows] = B1 * s["m"][rows] + (1 - B1) * g[rows]
    s["v"][rows] = np.maximum(B2 * s["v"][rows], np.abs(g[rows]))
    w[rows] -= RATE / (1 - B1 ** t) * s["m"][rows] / (s["v"][rows] + EPS)


def adamw(t, w, s, g, rows):
    w[rows] -= 0.02 * w[rows]
    adam_at("all")(t, w, s, g, rows)


formula("lazy_adam", adam_at("rows"), True)
formula("nadam", nadam, False)
formula("nadam", nadam, True)
formula("amsgrad", amsgrad, True)
formula("adamax", adamax, True)
formula("adamw", adamw, True)


# ---- Learning rates -------------------------------------------------------------------

def rates(name, make):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(tf.int64, [])
        rate = make(step)
        rate = rate() if callable(rate) else rate
        line("rate." + name, "steps0to40",
             [session.run(rate, {step: i}) for i in range(41)])


t = v1.train
rates("exponential", lambda s: t.exponential_decay(0.5, s, 7, 0.9))
rates("exponential_staircase",
      lambda s: t.exponential_decay(0.5, s, 7, 0.9, staircase=True))
rates("natural_exp", lambda s: t.natural_exp_decay(0.5, s, 7, 0.3))
rates("natural_exp_staircase",
      lambda s: t.natural_exp_decay(0.5, s, 7, 0.3, staircase=True))
rates("inverse_time", lambda s: t.inverse_time_decay(0.5, s, 7, 0.3))
rates("inverse_time_staircase",
      lambda s: t.inverse_time_decay(0.5, s, 7, 0.3, staircase=True))
rates("polynomial", lambda s: t.polynomial_decay(0.5, s, 25, 0.01, 1.5))
rates("polynomial_cycle",
      lambda s: t.polynomial_decay(0.5, s, 9, 0.01, 2.0, cycle=True))
rates("cosine", lambda s: t.cosine_decay(0.5, s, 25, 0.1))
rates("cosine_restarts",
      lambda s: t.cosine_decay_restarts(0.5, s, 5, 2.0, 0.7, 0.1))
rates("cosine_restarts_equal",
      lambda s: t.cosine_decay_restarts(0.5, s, 6, 1.0, 0.7, 0.1))
rates("linear_cosine",
      lambda s: t.linear_cosine_decay(0.5, s, 25, 1.5, 0.1, 0.002))
rates("piecewise", lambda s: t.piecewise_constant(
    s, [np.int64(4), np.int64(10), np.int64(30)], [0.5, 0.25, 0.1, 0.01]))


# ---- Clipping -------------------------------------------------------------------------

X, Y = R.normal(size=(4, 3)).round(3), R.normal(size=(5,)).round(3)


def clip(name, make):
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = tf.constant(X, tf.float32), tf.constant(Y, tf.float32)
        for i, out in enumerate(session.run(make(x, y))):
            line("clip." + name, str(i), out)


line("clip", "x", X)
line("clip", "y", Y)
clip("value", lambda x, y: [tf.clip_by_value(x, -0.5, 0.4)])
clip("norm", lambda x, y: [tf.clip_by_norm(x, 1.5), tf.clip_by_norm(y, 100.),
                           tf.clip_by_norm(0 * x, 1.5)])
clip("norm_axes", lambda x, y: [tf.clip_by_norm(x, 0.9, [1])])
clip("average", lambda x, y: [v1.clip_by_average_norm(x, 0.05),
                              v1.clip_by_average_norm(y, 7.0)])


def by_global_norm(limit):
    def make(x, y):
        rows = tf.IndexedSlices(x, tf.constant([0, 2, 2, 5]), [7, 3])
        (dense, slices, none), norm = tf.clip_by_global_norm(
            [y, rows, None], limit)
        assert none is None
        return [dense, slices.values, norm]
    return make


clip("global_tight", by_global_norm(0.8))
clip("global_loose", by_global_norm(80.0))


# ---- Moving averages ------------------------------------------------------------------

def averages(name, num_updates, zero_debias):
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=tf.constant(B, tf.float32),
                            use_resource=True)
        x = v1.placeholder(tf.float32, [3], name="x")
        n = v1.placeholder(tf.float32, [])
        ema = tf.train.ExponentialMovingAverage(
            0.9, n if num_updates else None, zero_debias=zero_debias)
        moved = w.assign_add(x)
        with tf.control_dependencies([moved]):
            apply = ema.apply([w, x])
        session.run(v1.global_variables_initializer())
        for i in range(STEPS):
            session.run(apply, {x: BIAS[i], n: i})
        for v in v1.global_variables():
            line("average." + name, v.op.name, session.run(v))


averages("plain", False, False)
averages("num_updates", True, False)
averages("zero_debias", False, True)


# ---- Losses ---------------------------------------------------------------------------

LABELS = (R.uniform(size=(4, 3)) > 0.5).astype(float)
PARTS = R.dirichlet(np.ones(3), 4).round(3)  # Rows of probabilities.
LOGITS = (3 * R.normal(size=(4, 3))).round(3)
CHANCES = R.uniform(0.01, 0.99, size=(4, 3)).round(3)
CLASSES = R.randint(0, 3, 4)
WEIGHTS = np.array([0.5, 0, 2, 1])


def losses():
    l = v1.losses
    line("loss", "labels", LABELS)
    line("loss", "parts", PARTS)
    line("loss", "logits", LOGITS)
    line("loss", "chances", CHANCES)
    line("loss", "classes", CLASSES)
    line("loss", "weights", WEIGHTS)
    labels, parts, logits, chances = (
        tf.constant(a, tf.float32) for a in (LABELS, PARTS, LOGITS, CHANCES))
    classes = tf.constant(CLASSES, tf.int64)
    kinds = {
        "absolute": lambda **k: l.absolute_difference(labels, logits, **k),
        "squared": lambda **k: l.mean_squared_error(labels, logits, **k),
        "huber": lambda **k: l.huber_loss(labels, logits, delta=1.5, **k),
        "log": lambda **k: l.log_loss(labels, chances, epsilon=1e-3, **k),
        "hinge": lambda **k: l.hinge_loss(labels, logits, **k),
        "cosine": lambda **k: l.cosine_distance(parts, chances, 1, **k),
        "sigmoid": lambda **k: l.sigmoid_cross_entropy(labels, logits, **k),
        "sigmoid_smooth": lambda **k: l.sigmoid_cross_entropy(
            labels, logits, label_smoothing=0.2, **k),
        "softmax": lambda **k: l.softmax_cross_entropy(parts, logits, **k),
        "softmax_smooth": lambda **k: l.softmax_cross_entropy(
            parts, logits, label_smoothing=0.2, **k),
        "sparse_softmax": lambda **k: l.sparse_softmax_cross_entropy(
            classes, logits, **k),
    }
    pairwise = l.mean_pairwise_squared_error
    rows = tf.constant(WEIGHTS, tf.float32)
    reductions = v1.losses.Reduction
    with v1.Session() as session:
        for name, make in kinds.items():
            flat = "softmax" in name
            weights = rows if flat else rows[:, None]
            for kind in ("NONE", "SUM", "SUM_OVER_BATCH_SIZE", "MEAN",
                         "SUM_BY_NONZERO_WEIGHTS"):
                for key, w in (("rows", weights), ("number", 0.5), ("none", 0.)):
                    line("loss." + name, f"{kind}.{key}", session.run(
                        make(weights=w, reduction=getattr(reductions, kind))))
        for key, w in (("rows", rows[:, None]), ("number", 0.5), ("none", 0.),
                       ("elements", tf.constant(PARTS, tf.float32))):
            line("loss.pairwise", key, session.run(pairwise(labels, logits, w)))


with tf.Graph().as_default():
    losses()


# ---- Metrics --------------------------------------------------------------------------

M = np.random.RandomState(7)
METRIC = {"chances": M.uniform(size=(3, 8)).round(3),
          "flags": M.randint(0, 2, (3, 8)), "classes": M.randint(0, 4, (3, 8)),
          "guesses": M.randint(0, 4, (3, 8)),
          "weights": M.randint(0, 4, (3, 8)) / 2}


COUNTS = ("true_positives", "true_negatives", "false_positives",
          "false_negatives")


def metrics(weighted):
    m, suffix = v1.metrics, "_weighted" if weighted else ""
    fed = {k: v1.placeholder(tf.float32 if v.dtype.kind == "f" else tf.int32, [8])
           for k, v in METRIC.items()}
    k = {"weights": fed["weights"] if weighted else None}
    sure = fed["chances"] > 0.5
    flags, chances, classes = (fed[n] for n in ("flags", "chances", "classes"))
    other = 1 - chances
    at = [0.25, 0.5, 0.75]
    scores, several = (tf.reshape(t, [2, 4]) for t in (chances, classes))
    rows = {"weights": fed["weights"][:2] + 0.5 if weighted else None}
    column = {"weights": rows["weights"][:, None] if weighted else None}
    kinds = {
        "mean_tensor": lambda n: m.mean_tensor(chances, name=n, **k),
        "below": lambda n: m.percentage_below(chances, 0.4, name=n, **k),
        "absolute": lambda n: m.mean_absolute_error(chances, other, name=n, **k),
        "squared": lambda n: m.mean_squared_error(chances, other, name=n, **k),
        "root": lambda n: m.root_mean_squared_error(chances, other, name=n, **k),
        "relative": lambda n: m.mean_relative_error(
            chances, other, chances, name=n, **k),
        "cosine": lambda n: m.mean_cosine_distance(
            scores, 1 - scores, 1, name=n, **column),
        **{n: lambda n, of=getattr(m, n): of(flags, sure, name=n, **k)
           for n in COUNTS},
        **{n + "_at": lambda n, of=getattr(m, n + "_at_thresholds"): of(
            flags, chances, at, name=n, **k)
           for n in (*COUNTS, "precision", "recall")},
        **{"auc_" + how: lambda n, how=how: m.auc(
            flags, chances, name=n, summation_method=how, **k)
           for how in ("minoring", "majoring")},
        **{"auc_pr_" + how: lambda n, how=how: m.auc(
            flags, chances, name=n, curve="PR", num_thresholds=20,
            summation_method=how, **k)
           for how in ("trapezoidal", "careful_interpolation")},
        "auc_at": lambda n: m.auc(flags, chances, name=n, thresholds=at, **k),
        "sensitivity": lambda n: m.sensitivity_at_specificity(
            flags, chances, 0.6, name=n, **k),
        "specificity": lambda n: m.specificity_at_sensitivity(
            flags, chances, 0.6, name=n, **k),
        "per_class": lambda n: m.mean_per_class_accuracy(
            classes, fed["guesses"], 4, name=n, **k),
        "precision_at_k": lambda n: m.precision_at_k(
            tf.cast(several, tf.int64), scores, 2, name=n, **rows),
        "precision_of_class": lambda n: m.precision_at_k(
            tf.cast(several, tf.int64), scores, 3, class_id=1, name=n, **rows),
        "recall_at_k": lambda n: m.recall_at_k(
            tf.cast(several, tf.int64), scores, 2, name=n, **rows),
        "average_precision_at_k": lambda n: m.average_precision_at_k(
            tf.cast(several, tf.int64), scores, 3, name=n, **rows),
        "one_label_at_k": lambda n: m.average_precision_at_k(
            tf.cast(several[:, 0], tf.int64), scores, 3, name=n, **rows),
        "mean": lambda n: m.mean(fed["chances"], name=n, **k),
        "accuracy": lambda n: m.accuracy(fed["classes"], fed["guesses"], name=n,
                                         **k),
        "precision": lambda n: m.precision(fed["flags"], sure, name=n, **k),
        "recall": lambda n: m.recall(fed["flags"], sure, name=n, **k),
        "auc": lambda n: m.auc(fed["flags"], fed["chances"], name=n, **k),
        "mean_iou": lambda n: m.mean_iou(fed["classes"], fed["guesses"], 4, name=n,
                                         **k),
    }
    made = {n + suffix: make(n + suffix) for n, make in kinds.items()}
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        for i in range(3):
            updated = session.run(
                {n: update for n, (_, update) in made.items()},
                {p: METRIC[n][i] for n, p in fed.items()})
            for name, (value, _) in made.items():
                line("metric." + name, f"batch{i}", session.run(value))
                line("metric." + name, f"update{i}", updated[name])
        for v in v1.local_variables():
            line("metric." + v.op.name.split("/")[0], f"var:{v.op.name}",
                 session.run(v))


for key, value in METRIC.items():
    line("metric", key, value)
for weighted in (False, True):
    with tf.Graph().as_default():
        metrics(weighted)


# ---- Loss scale -----------------------------------------------------------------------

FINITE = [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0]


def loss_scale():
    scaled = tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.5), initial_scale=8.0,
        dynamic_growth_steps=3)
    w, scales, values = tf.Variable(1.0), [], []
    scaled.build([w])
    for finite in FINITE:
        # The gradient of the scaled loss is the scale times 0.25.
        grad = float(scaled.dynamic_scale) * (0.25 if finite else np.inf)
        scaled.apply_gradients([(tf.constant(grad), w)])
        scales.append(float(scaled.dynamic_scale))
        values.append(float(w))
    line("loss_scale", "finite", np.array(FINITE))
    line("loss_scale", "scales", scales)
    line("loss_scale", "values", values)


loss_scale()
