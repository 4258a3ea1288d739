"""Control-flow contexts of operations, as in TensorFlow's internals."""


class ControlFlowContext:
    """A while loop or a branch of a conditional."""

    def __init__(self, graph, constructs):
        """Makes a context.

        `constructs` lists (name, branch number or -1 for a loop), from this
        context outwards.
        """
        self._graph, self._constructs = graph, constructs

    def __eq__(self, other):
        return isinstance(other, ControlFlowContext) and (
            self._graph is other._graph and
            self._constructs == other._constructs)

    def __hash__(self):
        return hash(tuple(self._constructs))

    @property
    def name(self):
        """The name, which is also the name of its scope."""
        return self._constructs[0][0]

    @property
    def outer_context(self):
        """The enclosing context, or None."""
        return around(self._graph, self._constructs[1:])

    def IsWhileContext(self):
        """Returns whether the context is a loop."""
        return self._constructs[0][1] < 0

    def IsCondContext(self):
        """Returns whether the context is a branch."""
        return not self.IsWhileContext()

    def IsXLAContext(self):
        """Returns False."""
        return False

    def GetWhileContext(self):
        """Returns the innermost loop that contains (or is) it, or None."""
        context = self
        while context is not None and not context.IsWhileContext():
            context = context.outer_context
        return context


def around(graph, constructs):
    """Returns the context of `constructs`, or None if there are none."""
    return ControlFlowContext(graph, constructs) if constructs else None
