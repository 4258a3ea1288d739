"""Maxout layers (Goodfellow et al., 2013)."""

from sluice.layers.base import Layer, as_function
from sluice.ops import array_ops, math_ops


class MaxOut(Layer):
    """Reduces an axis to `num_units` maxima over equal groups of features."""

    def __init__(self, num_units, axis=-1, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.num_units, self.axis = num_units, axis

    def call(self, inputs):
        axis = self.axis % inputs.shape.ndims
        features = inputs.shape.as_list()[axis]
        if features is None or features % self.num_units:
            raise ValueError(f"number of features({features}) is not a "
                             f"multiple of num_units({self.num_units})")
        known = inputs.shape.as_list()
        dims = [d if d is not None else array_ops.shape(inputs)[i]
                for i, d in enumerate(known)]
        dims[axis:axis + 1] = [self.num_units, features // self.num_units]
        outputs = math_ops.reduce_max(array_ops.reshape(inputs, dims),
                                      axis + 1)
        known[axis] = self.num_units
        outputs.set_shape(known)
        return outputs


maxout = as_function(MaxOut, reuse=False)
