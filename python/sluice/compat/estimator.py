"""The names of what a model is built for, as estimators call them."""


class ModeKeys:
    """What a model is built for: `tf.estimator.ModeKeys`."""

    TRAIN, EVAL, PREDICT = "train", "eval", "infer"


class LearnModeKeys:
    """What a model is built for: `tf.contrib.learn.ModeKeys`."""

    TRAIN, EVAL, INFER = "train", "eval", "infer"

    @classmethod
    def validate(cls, key):
        """Raises ValueError for what is no mode."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")
