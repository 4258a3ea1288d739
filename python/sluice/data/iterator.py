"""Iterators: the elements of a dataset, as tensors of the graph."""

from sluice.data import elements
from sluice.data.lowering import Build, Shapes, missing
from sluice.framework import dtypes, errors, graph as graphs
from sluice.framework.conversion import constant
from sluice.ops import control_flow, math_ops, variables
from sluice.training.saveables import SaveableObject, SaveSpec


class Iterator:
    """The elements of a dataset. Each step that needs them takes the next.

        iterator = dataset.make_initializable_iterator()
        x, y = iterator.get_next()
        with tf.Session() as session:
            session.run(iterator.initializer, {files: ["a", "b"]})
            while True:
                session.run(train)  # OutOfRangeError at the end.

    The pipeline runs beside the steps, on threads of the session, from the
    first step that needs an element until its end, its next initialization or
    the end of the session. In several sessions it runs independently, with
    elements for each; but sessions of one cluster share its elements, and it
    starts again for all of them.

    Made by `make_one_shot_iterator` and `make_initializable_iterator`. With
    `saved` the latter makes one whose position is part of checkpoints: a
    pipeline that starts after a saver has restored them goes on with exactly
    the elements that followed. See `make_initializable_iterator`.
    """

    def __init__(self, dataset, one_shot, saved=False):
        graph = graphs.get_default_graph()
        self._graph, self._one_shot = graph, one_shot
        self._started, self._start_op = None, None
        build = Build()
        with graphs.init_scope(), graphs.name_scope(
                "OneShotIterator" if one_shot else "Iterator"):
            pipeline, self._like = dataset._lower(build)
            self._shapes = Shapes()
            self._pipeline = pipeline.map(self._shapes.seen, 1).make_iterator(
                "pipeline", saved)
            # (No step runs it: it tells what elements are like.)
            self._spec = elements.spec_of(self._like.pack(
                self._shapes.restored(self._pipeline.next())))
            starts = [self._rewound()] if saved else []
            self._initializer = None if one_shot else control_flow.group(
                *build.sources, *starts, name="initializer")
            self._saveable = (_PositionSaveable(self, self._initializer)
                              if saved else None)
        if graph._iterators is None:
            graph._iterators = {}
        if not one_shot:
            graph._iterators[self._initializer.name] = (self, "initializes")
        if saved:
            graphs.add_to_collection(graphs.GraphKeys.SAVEABLE_OBJECTS,
                                     self._saveable)

    def _rewound(self):
        """Returns an operation that begins anew, unless that is to come yet.

        The position stays if it was restored, or set to the beginning, and the
        pipeline has not started since: a program's initializers may run after
        a restore, as those of a MonitoredSession do.
        """
        # Whether it has started since. (Of no collection, so that no other
        # initializer sets it. Without a value it is false.)
        self._begun = variables.Variable(False, trainable=False,
                                         collections=[], name="begun")
        self._note_begun = self._begun.assign(True).op
        begun = control_flow.cond(
            variables.is_variable_initialized(self._begun),
            self._begun.read_value, lambda: constant(False))
        stays = math_ops.logical_and(self._pipeline.has_position(),
                                     math_ops.logical_not(begun))

        def rewind():
            taken = constant(0, dtypes.int64)
            epochs = constant([0, 0], dtypes.int64)
            with graphs.control_dependencies([self._set([taken, epochs])]):
                return constant(True)

        return control_flow.cond(stays, lambda: constant(False),
                                 rewind, name="rewind").op

    def _set(self, position):
        """Returns an operation that sets the position."""
        return control_flow.group(self._pipeline.restore_position(position),
                                  self._begun.assign(False).op)

    def get_next(self, name=None):
        """Returns a structure of tensors that are the next element.

        In each step all of them are of the same element. Other calls give other
        elements. A step that needs them raises

        - errors.OutOfRangeError: at the end;
        - errors.FailedPreconditionError: if the iterator was not initialized;
        - the pipeline's error, once the elements before it were taken.
        """
        if graphs.get_default_graph() is not self._graph:
            raise ValueError("get_next: expected to be called in the graph of "
                             "the iterator")
        with graphs.name_scope(name, "IteratorGetNext"):
            waits = []
            if not self._one_shot and (
                    self._graph._get_control_flow_context() is not None):
                waits = [self._check_started()]
            with graphs.control_dependencies(waits):
                tensors = self._pipeline.next()
        self._graph._iterators[tensors[0].op.name] = (self, "takes")
        return self._like.pack(self._shapes.restored(tensors))

    def _check_started(self):
        """Returns an operation that fails unless the iterator was started.

        Whether a branch takes an element is known in a step only. So there an
        uninitialized variable is what fails.
        """
        if self._started is None:
            with graphs.init_scope():
                self._started = variables.Variable(
                    False, trainable=False, collections=[], name="started")
                self._start_op = self._started.initializer
        return self._started.read_value().op

    def _start(self, session, feed_dict):
        """Starts the pipeline in a session."""
        session._start_pipeline(self._pipeline, feed_dict, 0)
        if self._saveable is not None:
            session._run(self._note_begun)
        if self._start_op is not None:
            session._run(self._start_op)

    def _uninitialized(self, op):
        """Returns the error of a step that takes an element."""
        return errors.FailedPreconditionError(
            None, op, f"{op.name}: GetNext() failed because the iterator has "
            f"not been initialized. Ensure that you have run the initializer "
            f"operation for this iterator before getting the next element.")

    @property
    def initializer(self):
        """The operation that lets the iterator start, or start again.

        What is fed to the step that runs it is fed to the pipeline. The
        pipeline starts with the next step that takes an element: at the
        beginning, but if the iterator's position was restored in the session
        and the pipeline has not started there since, at that position. So it
        does not matter whether a program restores a checkpoint before or after
        it runs its initializers, and running this once more, as for another
        epoch, begins anew. ValueError for a one-shot iterator.
        """
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset, name=None):
        """Raises UnimplementedError: an iterator has one dataset."""
        raise missing("Iterator.make_initializer", "make an iterator for each "
                      "dataset, and choose with tf.cond")

    def string_handle(self, name=None):
        """Raises UnimplementedError: an iterator has one dataset."""
        raise missing("Iterator.string_handle", "make an iterator for each "
                      "dataset, and choose with tf.cond")

    @staticmethod
    def from_structure(output_types, output_shapes=None, shared_name=None,
                       output_classes=None):
        """Raises UnimplementedError: an iterator has one dataset."""
        raise missing("Iterator.from_structure", "make an iterator for each "
                      "dataset, and choose with tf.cond")

    @staticmethod
    def from_string_handle(string_handle, output_types, output_shapes=None,
                           output_classes=None):
        """Raises UnimplementedError: an iterator has one dataset."""
        raise missing("Iterator.from_string_handle", "make an iterator for "
                      "each dataset, and choose with tf.cond")

    @property
    def element_spec(self):
        """A structure of the TensorSpecs of an element."""
        return self._spec

    @property
    def output_types(self):
        """The structure of the dtypes of an element."""
        return elements.map_structure(lambda s: s.dtype, self._spec)

    @property
    def output_shapes(self):
        """The structure of the static shapes of an element."""
        return elements.map_structure(lambda s: s.shape, self._spec)

    @property
    def output_classes(self):
        """The structure of Tensor and SparseTensor of an element."""
        return elements.map_structure(lambda s: s.value_type, self._spec)


class _PositionSaveable(SaveableObject):
    """The position of an iterator: a number and a vector of two."""

    def __init__(self, iterator, initializer):
        self._iterator = iterator
        name = initializer.name.rpartition("/")[0] + "/position"
        taken, epochs = iterator._pipeline.position()
        super().__init__(initializer, [
            SaveSpec(taken, "", name),
            SaveSpec(epochs, "", name + "_epochs")], name)

    def restore(self, restored_tensors, restored_shapes):
        """Sets the position, from which the pipeline starts again."""
        del restored_shapes
        iterator = self._iterator
        op = iterator._set(list(restored_tensors))
        iterator._graph._iterators[op.name] = (iterator, "restores")
        return op


def make_saveable_from_iterator(iterator):
    """Returns what a saver saves of an iterator: its position.

    Savers save it by default.

    Args:
      iterator: one that `make_initializable_iterator(saved=True)` has made;
        ValueError for others.
    """
    if iterator._saveable is None:
        raise ValueError(
            "make_saveable_from_iterator: expected an iterator whose position "
            "is saved, got another; hint: "
            "dataset.make_initializable_iterator(saved=True)")
    return iterator._saveable


def make_one_shot_iterator(dataset):
    """Returns an Iterator that starts by itself in each session."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset, shared_name=None, saved=False):
    """Returns an Iterator that starts when its `initializer` is run."""
    return dataset.make_initializable_iterator(shared_name, saved)


def get_output_types(dataset_or_iterator):
    """Returns the structure of the dtypes of a dataset's or iterator's
    elements."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator):
    """Returns the structure of the static shapes of a dataset's or iterator's
    elements."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator):
    """Returns the structure of the classes of a dataset's or iterator's
    elements."""
    return dataset_or_iterator.output_classes
