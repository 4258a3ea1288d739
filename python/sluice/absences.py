"""TensorFlow names that are not implemented yet."""

# Names that are not implemented yet, by the feature they need.
_ABSENT = {
    "readers of LMDB files": "LMDBReader",
    "samplers of input pipelines":
        "contrib.training.rejection_sample contrib.training.resample_at_rate "
        "contrib.training.stratified_sample contrib.training.weighted_resample",
    "checkpoints of objects": "train.Checkpoint train.CheckpointManager",
    "strategies": "distribute.Strategy distribute.MirroredStrategy "
                  "distribute.OneDeviceStrategy "
                  "distribute.experimental",
    "ragged tensors": "RaggedTensorSpec strings.ngrams",
    "eager tensors": "enable_eager_execution"}
NEEDS = {name: what for what, names in _ABSENT.items()
         for name in names.split()}
# Namespaces that are mostly not implemented yet, by the feature they need.
_ABSENT_MODULES = {
    "summaries of eager programs": "contrib.summary",
    "data sets of that kind": "data contrib.data data.experimental",
    "estimators": "estimator feature_column contrib.learn contrib.estimator",
    "Keras's layers": "keras keras.backend keras.callbacks keras.layers "
                      "keras.losses keras.models keras.optimizers keras.utils "
                      "contrib.keras",
    "ragged tensors": "ragged"}
MODULE_NEEDS = {name: what for what, names in _ABSENT_MODULES.items()
                for name in names.split()}
