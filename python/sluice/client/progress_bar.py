"""Progress bars: how far a loop has come, how fast it is, when it will end."""

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

_open = []  # Bars that are shown, the outer ones first.
_lock = threading.RLock()  # Of these and of what is written.


def progress(iterable=None, label="", total=None):
    """A bar that shows how far a loop has come: in a notebook, on a terminal,
    and as a line a minute where neither is (in a log).

        for step in sl.progress(range(1000), "training"):
            session.run(train)

    With values beside it, and lines above it:

        bar = sl.progress(range(1000), "training")
        for step in bar:
            bar.set(loss=session.run([loss, train])[0])
            if step % 100 == 0:
                bar.print("step", step)

    Of what no loop goes through one by one:

        with sl.progress(total=60000, label="images") as bar:
            while more:
                bar.update(read_some())

    A bar within another one's loop is gone when its own has ended.

    Args:
      iterable: what to go through.
      label: what stands before the bar.
      total: how many steps there will be; by default the length of `iterable`,
        if it has one.
    """
    return ProgressBar(iterable, label, total)


class ProgressBar:
    """What `progress` makes. It is there while a loop goes through it, or in a
    with-block."""

    def __init__(self, iterable, label, total):
        if total is None and iterable is not None:
            length = operator.length_hint(iterable, -1)
            total = None if length < 0 else length
        self._iterable, self._label, self._total = iterable, label, total
        self._values = {}
        self._marks = None  # Until it begins.
        self._ended = False

    def __iter__(self):
        steps = iter(self._iterable)
        with self:
            for step in steps:
                yield step
                self.update()

    def __enter__(self):
        with _lock:
            if self in _open:  # A loop over it, in a with-block of it.
                return self
            if self._ended:  # Another loop has values of its own.
                self._values.clear()
            self._count, self._ended = 0, False
            self._began = (time.monotonic(), 0)
            # (How fast it is now, is since some marks ago.)
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
        """`n` more steps are done."""
        if self._marks is None:
            raise RuntimeError("progress: expected a loop over the bar, or "
                               "`with` it, around update()")
        with _lock:
            self._count += n
            if time.monotonic() >= self._draw_at and not self._ended:
                self._mark()
                self._draw()

    def set(self, **values):
        """What to show beside the bar: `bar.set(loss=0.5)`."""
        self._values.update(values)

    def print(self, *args, **kwargs):
        """Python's `print`, above the bar."""
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

    # ---- What it shows.

    def _part(self):
        """How much is done, from 0 to 1; None if nobody knows."""
        if self._total is None:
            return 1.0 if self._ended else None
        return min(self._count / self._total, 1.0) if self._total else 1.0

    def _numbers(self):
        """The count, the speed, times and values."""
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
        """All of it in a line of at most `width` columns."""
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
    """0:07, 12:34, 1:02:03"""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02}:{seconds:02}" if hours
            else f"{minutes}:{seconds:02}")


def _text(value):
    """A value in few letters."""
    if not isinstance(value, (int, str)):
        try:
            return f"{float(value):.4g}"
        except (TypeError, ValueError):
            pass
    return " ".join(str(value).split())


# ---- Where it is shown -------------------------------------------------------


def _place():
    """Where a bar that begins now is to be shown."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is not None:
        return _Notebook()
    if sys.stderr is not None and sys.stderr.isatty() and (
            os.environ.get("TERM") != "dumb"):
        return _Terminal(sys.stderr)
    return _Log()


class _Notebook:
    """A display below the cell that runs."""

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
    """The line of the cursor, which the innermost bar has."""

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
    """Lines in a file; none of what takes less than a minute."""

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
