"""The options of datasets, which programs may set and nothing reads."""


class Options:
    """The options of a dataset. Any may be set; they are ignored."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("experimental_optimization", "experimental_threading",
                    "experimental_distribute", "experimental", "threading",
                    "autotune"):
            made = Options()
            setattr(self, name, made)
            return made
        return None

    def merge(self, options):
        """Returns the options of both; those of `options` take precedence."""
        made = Options()
        made.__dict__.update(self.__dict__)
        made.__dict__.update(options.__dict__)
        return made

    def __eq__(self, other):
        return isinstance(other, Options) and self.__dict__ == other.__dict__

    __hash__ = None
