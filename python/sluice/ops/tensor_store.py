"""TensorStore: tensors by key, whose reads wait for the write of their key."""

from sluice import _core
from sluice.framework import dtypes, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import device
from sluice.ops import math_ops

_op = _core.op
_make = _op("TensorStore")
_write = _op("TensorStoreWrite")
_read = _op("TensorStoreRead")
_read_many = _op("TensorStoreReadMany")
_has = _op("TensorStoreHas")
_size = _op("TensorStoreSize")
_keys = _op("TensorStoreKeys")


class TensorStore:
    """Tensors of one dtype by key, each written once and read many times.

    A read waits for the write of its own key, and for nothing else. A step that
    reads a key runs all writes of the store that its graph has. A step in which
    only reads are left that nothing can serve fails at once, and names the keys
    and the operations. Gradients flow through a store, of any order. Its
    operations run where the store is, whatever devices they are built on.

    In a `while_loop`, an iteration may read what any other writes, if
    `parallel_iterations` is large enough for both to run at once.

    Args:
      dtype: the dtype of the elements.
      key_dtype: `int64` or `string`.
      element_shape: the static shape of all elements, as far as it is known.
      container, shared_name: with a name, the store outlives the step: all
        stores of this name are one. Its gradient is that of what the step
        itself writes.
      name: the name of the operation.
    """

    def __init__(self, dtype, key_dtype=dtypes.int64, element_shape=None,
                 container="", shared_name="", name=None):
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._key_dtype = dtypes.as_dtype(key_dtype).base_dtype
        self._element_shape = tensor_shape.as_shape(element_shape)
        self._handle = _make(
            dtype=self._dtype, key_dtype=self._key_dtype,
            element_shape=self._element_shape, container=container,
            shared_name=shared_name, name=name)

    @property
    def dtype(self):
        """The dtype of the elements."""
        return self._dtype

    @property
    def handle(self):
        """The handle of the store."""
        return self._handle

    def _key(self, key):
        """Returns a key as a tensor: integers become int64."""
        if isinstance(key, _core.Tensor):
            if key.dtype == dtypes.int32 and self._key_dtype == dtypes.int64:
                return math_ops.cast(key, dtypes.int64)
            return key
        return convert_to_tensor(key, dtype=self._key_dtype)

    def write(self, key, value, name=None):
        """Writes the element at `key`, once.

        Args:
          key: a scalar.
          value: the element.
          name: a name for the operation.

        Returns:
          A zero, which is there when the element has been written.
        """
        value = convert_to_tensor(value, dtype=self._dtype)
        key = self._key(key)
        with device(None):
            return _write(self._handle, key, value, name=name)

    def read(self, key, name=None):
        """Returns the element at `key`, when it has been written."""
        key = self._key(key)
        with device(None):
            return _read(self._handle, key, dtype=self._dtype,
                         element_shape=self._element_shape, name=name)

    def read_many(self, keys, name=None):
        """Returns the elements at a vector of keys, stacked."""
        keys = self._key(keys)
        with device(None):
            return _read_many(self._handle, keys, dtype=self._dtype,
                              element_shape=self._element_shape, name=name)

    def has(self, key, name=None):
        """Returns whether `key` has been written so far."""
        key = self._key(key)
        with device(None):
            return _has(self._handle, key, name=name)

    def size(self, name=None):
        """Returns how many keys have been written so far, an int64 scalar."""
        with device(None):
            return _size(self._handle, name=name)

    def keys(self, name=None):
        """Returns the keys that have been written so far, in order."""
        with device(None):
            return _keys(self._handle, Tkey=self._key_dtype, name=name)
