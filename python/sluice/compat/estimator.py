"""The modes that estimators build models for."""


class ModeKeys:
    """Modes of a model: `tf.estimator.ModeKeys`."""

    TRAIN, EVAL, PREDICT = "train", "eval", "infer"


class LearnModeKeys:
    """Modes of a model: `tf.contrib.learn.ModeKeys`."""

    TRAIN, EVAL, INFER = "train", "eval", "infer"

    @classmethod
    def validate(cls, key):
        """Raises ValueError unless the key is a mode."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")
