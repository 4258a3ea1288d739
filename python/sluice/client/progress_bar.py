"""Progress bars that show progress, speed and remaining time of loops."""

import collections
import html
import operator
import os
import shutil
import sys
import threading
import time

_EVERY_S, _EVERY_S_IN_LOGS = 0.1, 60
_BLOCKS, _DASHES = " ▏▎▍▌▋▊▉█", " #"
_GOING, _DONE, _STOPPED = "#2563eb", "#059669", "#d97706"

_open = []  # The visible bars, outermost first.
_lock = threading.RLock()  # Guards the globals above and the output.


def progress(iterable=None, label="", total=None):
    """Makes a progress bar for a loop.

    The bar appears in a notebook or on a terminal. Otherwise (in a log) a line
    is printed every minute.

        for step in sl.progress(range(1000), "training"):
            session.run(train)

    To show values beside the bar and print lines above it:

        bar = sl.progress(range(1000), "training")
        for step in bar:
            bar.set(loss=session.run([loss, train])[0])
            if step % 100 == 0:
                bar.print("step", step)

    To count steps that are not items of an iterable:

        with sl.progress(total=60000, label="images") as bar:
            while more:
                bar.update(read_some())

    A nested bar disappears when its loop ends.

    Args:
      iterable: the iterable to loop over.
      label: the text before the bar.
      total: the number of steps; defaults to the length of `iterable`, if
        known.
    """
    return ProgressBar(iterable, label, total)


class ProgressBar:
    """A progress bar; see `progress`.

    It is visible during a loop over it, or within a with-block.
    """

    def __init__(self, iterable, label, total):
        if total is None and iterable is not None:
            length = operator.length_hint(iterable, -1)
            total = None if length < 0 else length
        self._iterable, self._label, self._total = iterable, label, total
        self._values = {}
        self._marks = None  # None until the bar starts.
        self._ended = False

    def __iter__(self):
        steps = iter(self._iterable)
        with self:
            for step in steps:
                yield step
                self.update()

    def __enter__(self):
        with _lock:
            if self in _open:  # A loop over the bar inside `with bar`.
                return self
            if self._ended:  # A second loop starts without values.
                self._values.clear()
            self._count, self._ended = 0, False
            self._began = (time.monotonic(), 0)
            # The current speed is measured from the oldest of these marks.
            self._marks = collections.deque([self._began], maxlen=50)
            self._place = _place()
            _open.append(self)
            self._draw()
        return self

    def __exit__(self, *unused):
        with _lock:
            if self in _open:
                self._ended = True
                self._mark()
                self._place.end(self, _open[0] is not self)
                _open.remove(self)

    def update(self, n=1):
        """Adds `n` completed steps."""
        if self._marks is None:
            raise RuntimeError("progress: expected a loop over the bar, or "
                               "`with` it, around update()")
        with _lock:
            self._count += n
            if time.monotonic() >= self._draw_at and not self._ended:
                self._mark()
                self._draw()

    def set(self, **values):
        """Sets the values shown beside the bar: `bar.set(loss=0.5)`."""
        self._values.update(values)

    def print(self, *args, **kwargs):
        """Prints above the bar, with the arguments of the builtin `print`."""
        with _lock:
            if _open:
                _open[-1]._place.clear()
            print(*args, **kwargs)
            sys.stdout.flush()
            if _open:
                _open[-1]._draw()

    def _mark(self):
        self._marks.append((time.monotonic(), self._count))

    def _draw(self):
        self._draw_at = time.monotonic() + _EVERY_S
        self._place.draw(self)

    # ---- Text --------------------------------------------------------------

    def _part(self):
        """Returns the completed fraction, or None if the total is unknown."""
        if self._total is None:
            return 1.0 if self._ended else None
        return min(self._count / self._total, 1.0) if self._total else 1.0

    def _numbers(self):
        """Returns the count, the speed, the times and the values as text."""
        if self._marks is None:
            return "not begun"
        now, count = self._marks[-1]
        since, before = self._began if self._ended else self._marks[0]
        took = now - self._began[0]
        speed = (count - before) / (now - since) if now > since else 0.0
        texts = [f"{count:,}" if self._total is None
                 else f"{count:,}/{self._total:,}"]
        if speed:
            texts.append(f"{speed:,.0f}/s" if speed >= 100
                         else f"{speed:.3g}/s" if speed >= 1
                         else f"{1 / speed:.3g} s each")
        texts.append(_clock(took))
        if speed and self._total and not self._ended:
            left = max(self._total - count, 0) / speed
            texts.append(f"{_clock(left)} left")
        texts += [f"{name} {_text(v)}" for name, v in self._values.items()]
        return ", ".join(texts)

    def _line(self, width, marks=_BLOCKS):
        """Returns the bar as a line of at most `width` columns."""
        part, label = self._part(), self._label and self._label + " "
        numbers = self._numbers()
        if part is None or self._total is None:
            return (label + numbers)[:width]
        percent = f"{int(part * 100):3}% "
        room = min(width - len(label + percent + numbers) - 3, 30)
        bar = ""
        if room >= 5:
            full, rest = divmod(int(part * room * (len(marks) - 1)),
                                len(marks) - 1)
            bar = (marks[-1] * full + (marks[rest] if full < room else "")
                   ).ljust(room)
            bar = f"|{bar}| "
        return (label + percent + bar + numbers)[:width]

    def __repr__(self):
        return self._line(100)

    def _repr_html_(self):
        part = self._part()
        colour = _GOING if not self._ended else (
            _DONE if part == 1 else _STOPPED)
        bar = "" if part is None else (
            '<div style="flex:0 1 240px;height:10px;border-radius:5px;'
            'overflow:hidden;background:rgba(128,128,128,.25)">'
            f'<div style="width:{part:.1%};height:100%;background:{colour}">'
            "</div></div>")
        label = self._label and f"<b>{html.escape(self._label)}</b>"
        percent = "" if self._total is None else f"{int(part * 100)}%, "
        numbers = html.escape(percent + self._numbers())
        return (
            '<div style="display:flex;align-items:center;gap:8px;'
            'font:12px/1.5 sans-serif;font-variant-numeric:tabular-nums">'
            f"{label}{bar}<span>{numbers}</span></div>")


def _clock(seconds):
    """Formats a duration: 0:07, 12:34, 1:02:03."""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02}:{seconds:02}" if hours
            else f"{minutes}:{seconds:02}")


def _text(value):
    """Formats a value briefly, on one line."""
    if not isinstance(value, (int, str)):
        try:
            return f"{float(value):.4g}"
        except (TypeError, ValueError):
            pass
    return " ".join(str(value).split())


# ---- Outputs -----------------------------------------------------------------


def _place():
    """Returns the output for a new bar: a notebook, a terminal or a log."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is not None:
        return _Notebook()
    if sys.stderr is not None and sys.stderr.isatty() and (
            os.environ.get("TERM") != "dumb"):
        return _Terminal(sys.stderr)
    return _Log()


class _Notebook:
    """Shows each bar in a display below the running cell."""

    def __init__(self):
        self._display = None

    def draw(self, bar):
        if self._display is None:
            from IPython.display import display
            self._display = display(bar, display_id=True)
        else:
            self._display.update(bar)

    def clear(self):
        pass

    def end(self, bar, within):
        if within:
            self._display.update({"text/plain": "", "text/html": ""}, raw=True)
        else:
            self._display.update(bar)


class _Terminal:
    """Shows the innermost bar on the current line of the terminal."""

    def __init__(self, stream):
        self._stream = stream
        encoding = getattr(stream, "encoding", None) or "ascii"
        try:
            _BLOCKS.encode(encoding)
            self._marks = _BLOCKS
        except UnicodeEncodeError:
            self._marks = _DASHES

    def _write(self, line, end=""):
        self._stream.write(f"\r{line}\x1b[K{end}")
        self._stream.flush()

    def _line(self, bar):
        width = shutil.get_terminal_size().columns - 1
        return bar._line(width, self._marks)

    def draw(self, bar):
        if _open[-1] is bar:
            self._write(self._line(bar))

    def clear(self):
        self._write("")

    def end(self, bar, within):
        if within:
            self.clear()
        else:
            self._write(self._line(bar), "\n")


class _Log:
    """Prints a line per minute; bars that end earlier print nothing."""

    def __init__(self):
        self._next = time.monotonic() + _EVERY_S_IN_LOGS
        self._said = False

    def draw(self, bar):
        if time.monotonic() < self._next:
            return
        self._next += _EVERY_S_IN_LOGS
        self._say(bar)

    def _say(self, bar):
        self._said = True
        print(bar._line(200, _DASHES), file=sys.stderr, flush=True)

    def clear(self):
        pass

    def end(self, bar, within):
        if self._said:
            self._say(bar)
