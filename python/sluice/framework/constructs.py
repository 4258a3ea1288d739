"""The loop, or the branch of a conditional, that an operation is in, as the
insides of TensorFlow's programs ask for it."""


class ControlFlowContext:
    """A loop, or a branch."""

    def __init__(self, graph, constructs):
        """`constructs`: (name, number of the branch or -1 for a loop) of it
        and of what is around it."""
        self._graph, self._constructs = graph, constructs

    def __eq__(self, other):
        return isinstance(other, ControlFlowContext) and (
            self._graph is other._graph and
            self._constructs == other._constructs)

    def __hash__(self):
        return hash(tuple(self._constructs))

    @property
    def name(self):
        """Its name, that of its scope."""
        return self._constructs[0][0]

    @property
    def outer_context(self):
        """What it is in, or None."""
        return around(self._graph, self._constructs[1:])

    def IsWhileContext(self):
        """Whether it is a loop."""
        return self._constructs[0][1] < 0

    def IsCondContext(self):
        """Whether it is a branch."""
        return not self.IsWhileContext()

    def IsXLAContext(self):
        """False."""
        return False

    def GetWhileContext(self):
        """The innermost loop around (or at) it, or None."""
        context = self
        while context is not None and not context.IsWhileContext():
            context = context.outer_context
        return context


def around(graph, constructs):
    """The innermost of these, or None."""
    return ControlFlowContext(graph, constructs) if constructs else None
