"""Command-line flags.

For example `DEFINE_integer("steps", 10, "How many")` and `FLAGS.steps`.
"""

import sys


class Error(Exception):
    """Raised if a flag is unknown, missing, or has an invalid value."""


class UnrecognizedFlagError(Error, AttributeError):
    """Raised if a flag is not defined."""


class IllegalFlagValueError(Error):
    """Raised if a value is not allowed for a flag."""


class DuplicateFlagError(Error):
    """Raised if a flag is defined twice."""


class Flag:
    """A flag with its parser, value and default."""

    def __init__(self, name, default, help, parse, boolean=False):
        self.name, self.help, self.boolean = name, help, boolean
        self._parse, self.required = parse, False
        self.present = False
        self.default = self.value = self._checked(default)

    def _checked(self, value):
        if value is None:
            return None
        try:
            return self._parse(value)
        except (ValueError, TypeError) as e:
            raise IllegalFlagValueError(
                f"flag --{self.name}={value}: {e}") from None

    def set(self, value):
        """Sets the value."""
        self.value = self._checked(value)
        self.present = True


class FlagValues:
    """The values of all flags.

    The command line is parsed when a flag is first read.
    """

    def __init__(self):
        self.__dict__["_flags"] = {}
        self.__dict__["_parsed"] = False

    def _define(self, flag):
        if flag.name in self._flags:
            raise DuplicateFlagError(f"The flag '{flag.name}' is defined "
                                     f"twice.")
        self._flags[flag.name] = flag

    def __call__(self, argv, known_only=False):
        """Parses flags; returns the program name and remaining arguments."""
        left, words = list(argv[:1]), list(argv[1:])
        while words:
            word = words.pop(0)
            if word == "--":
                left += words
                break
            if not word.startswith("-") or word == "-":
                left.append(word)
                continue
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if name in ("help", "helpfull", "h") and name not in self._flags:
                print(self.main_module_help())
                sys.exit(1)
            flag = self._flags.get(name)
            if flag is None and not equals and name.startswith("no"):
                off = self._flags.get(name[2:])
                if off is not None and off.boolean:
                    off.set(False)
                    continue
            if flag is None:
                if not known_only:
                    raise UnrecognizedFlagError(
                        f"Unknown command line flag '{name}'")
                left.append(word)
            elif equals:
                flag.set(value)
            elif flag.boolean:
                flag.set(True)
            elif words:
                flag.set(words.pop(0))
            else:
                raise Error(f"Missing value for flag --{name}")
        self.__dict__["_parsed"] = True
        for flag in self._flags.values():
            if flag.required and flag.value is None:
                raise IllegalFlagValueError(
                    f"flag --{flag.name}=None: Flag --{flag.name} must have a "
                    f"value other than None.")
        return left

    def is_parsed(self):
        """Returns whether the command line was parsed."""
        return self._parsed

    def mark_as_parsed(self):
        """Makes values available without parsing."""
        self.__dict__["_parsed"] = True

    def main_module_help(self):
        """Returns the flags and their help texts."""
        return "\n".join(f"  --{f.name}: {f.help}\n    (default: {f.default})"
                         for f in self._flags.values())

    def flag_values_dict(self):
        """Returns {name: value}."""
        return {name: f.value for name, f in self._flags.items()}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._parsed:
            self(sys.argv)
        if name not in self._flags:
            raise UnrecognizedFlagError(f"Unknown command line flag '{name}'")
        return self._flags[name].value

    def __setattr__(self, name, value):
        if name not in self._flags:
            raise UnrecognizedFlagError(f"Unknown command line flag '{name}'")
        self._flags[name].set(value)

    def __delattr__(self, name):
        del self._flags[name]

    def __getitem__(self, name):
        return self._flags[name]

    def __iter__(self):
        return iter(sorted(self._flags))

    def __contains__(self, name):
        return name in self._flags

    def __len__(self):
        return len(self._flags)

    def __dir__(self):
        return sorted(self._flags)


FLAGS = FlagValues()


def _boolean(value):
    if isinstance(value, str):
        text = value.lower()
        if text in ("true", "t", "1", "yes", "y"):
            return True
        if text in ("false", "f", "0", "no", "n"):
            return False
        raise ValueError("Non-boolean argument to boolean flag")
    return bool(value)


def _integer(value):
    if isinstance(value, str):
        return int(value, 0)
    if int(value) != value:
        raise ValueError(f"expected an integer, got {value}")
    return int(value)


def _list(value):
    if isinstance(value, (list, tuple)):
        return list(value)
    return [v.strip() for v in value.split(",")] if value else []


def _definer(parse, doc, boolean=False):
    def define(name, default, help=None,
               flag_values=None, required=False):
        flag = Flag(name, default, help, parse, boolean)
        flag.required = bool(required)
        (FLAGS if flag_values is None else flag_values)._define(flag)
    define.__doc__ = doc
    return define


def _number_definer(parse, doc):
    def define(name, default, help=None,
               lower_bound=None, upper_bound=None, flag_values=None,
               required=False):
        def within(value):
            number = parse(value)
            if lower_bound is not None and number < lower_bound:
                raise ValueError(f"expected at least {lower_bound}")
            if upper_bound is not None and number > upper_bound:
                raise ValueError(f"expected at most {upper_bound}")
            return number
        _definer(within, doc)(name, default, help, flag_values, required)
    define.__doc__ = doc
    return define


DEFINE_string = _definer(str, "Defines a string flag.")
DEFINE_integer = _number_definer(_integer,
                                 "Defines an integer flag.")
DEFINE_float = _number_definer(float, "Defines a float flag.")
DEFINE_boolean = DEFINE_bool = _definer(
    _boolean, "Defines a boolean flag (--name or --noname).", True)
DEFINE_list = _definer(_list, "Defines a flag for a comma-separated list.")


def DEFINE_enum(name, default, enum_values,
                help=None,
                flag_values=None, required=False):
    """Defines a flag whose value is one of several strings."""
    def one_of(value):
        if value not in enum_values:
            raise ValueError(f"value should be one of "
                             f"<{'|'.join(enum_values)}>")
        return value
    _definer(one_of, "")(name, default, help, flag_values, required)


def mark_flag_as_required(name, flag_values=None):
    """Makes parsing fail if the flag is not given."""
    (FLAGS if flag_values is None else flag_values)[name].required = True


def mark_flags_as_required(names, flag_values=None):
    """Applies `mark_flag_as_required` to several flags."""
    for name in names:
        mark_flag_as_required(name, flag_values)
