"""Progress bars in notebooks, on terminals and in logs."""

import io
import re
import sys
import threading
import time
import types

import pytest

import sluice as sl
from sluice.client import progress_bar


class Clock:
    """A clock that the test controls."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress_bar.time, "monotonic", lambda: self.now)

    def pass_(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True

    def lines(self):
        """Returns the lines of the screen, each with all of its contents."""
        return [[part.replace("\x1b[K", "") for part in line.split("\r")[1:]]
                for line in self.getvalue().split("\n")]


def write_to(stream, monkeypatch):
    """Replaces sys.stderr; pytest itself changes it after fixtures."""
    monkeypatch.setattr(progress_bar, "sys", types.SimpleNamespace(
        stderr=stream, stdout=sys.stdout, modules=sys.modules))


@pytest.fixture
def terminal(monkeypatch):
    made = Terminal()
    write_to(made, monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return made


class Shown:
    """A notebook display that records everything it shows."""

    def __init__(self, value):
        self.pages = []
        self.update(value)

    def update(self, value, raw=False):
        self.pages.append(value["text/html"] if raw else value._repr_html_())

    def texts(self):
        return [re.sub("<[^>]*>", " ", page).split() for page in self.pages]


@pytest.fixture
def notebook(monkeypatch):
    """Simulates a notebook; returns its displays."""
    displays = []

    def display(value, display_id):
        assert display_id is True
        displays.append(Shown(value))
        return displays[-1]

    ipython, module = types.ModuleType("IPython"), types.ModuleType("display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return displays


def run_slowly(bar, clock, seconds=1.0):
    for i in bar:
        clock.pass_(seconds)
        yield i


def test_terminal_line_shows_progress_of_loop(terminal, clock):
    assert list(run_slowly(sl.progress(range(4), "training"), clock)) == [
        0, 1, 2, 3]
    (first, second, *_, last), rest = terminal.lines()
    assert re.fullmatch(r"training   0% \|  +\| 0/4, 0:00", first)
    assert re.fullmatch(r"training  25% \|█+[▉-▏]? +\| "
                        r"1/4, 1/s, 0:01, 0:03 left", second)
    assert re.fullmatch(r"training 100% \|█+\| 4/4, 1/s, 0:04", last)
    assert rest == [] and all(len(line) < 80 for line in (first, second, last))


def test_bar_shows_values_and_prints_lines_above(terminal, clock, capsys):
    bar = sl.progress(range(2), "training")
    for i in run_slowly(bar, clock):
        bar.set(loss=0.123456 / (i + 1), rows=[1, 2], epoch=i)
        bar.print("step", i)
    assert capsys.readouterr().out == "step 0\nstep 1\n"
    drawn = terminal.lines()[0]
    assert drawn[-1].endswith("loss 0.06173, rows [1, 2], epoch 1")
    assert "" in drawn  # The line was cleared for the printed text.


def test_inner_bar_restores_the_line(terminal, clock):
    for _ in run_slowly(sl.progress(range(2), "outer"), clock):
        for _ in run_slowly(sl.progress(range(2), "inner"), clock):
            pass
    drawn, rest = terminal.lines()
    assert rest == [] and drawn[-1].startswith("outer 100%")
    names = [line.split(" ")[0] for line in drawn]
    assert names == ["outer", "inner", "inner", "inner", "", "outer",
                     "inner", "inner", "inner", "", "outer", "outer"]


def test_aborted_loop_shows_its_progress(terminal, notebook, clock):
    for i in run_slowly(sl.progress(range(10)), clock):
        if i == 3:
            break
    with pytest.raises(KeyError):
        with sl.progress(total=10) as bar:
            bar.update(5)
            raise KeyError("no more")
    for shown, count in zip(notebook, ("3/10,", "5/10,")):
        assert count in shown.texts()[-1]
        assert progress_bar._STOPPED in shown.pages[-1]
    assert not progress_bar._open


def test_notebook_display_is_updated(notebook, terminal, clock):
    for _ in run_slowly(sl.progress(range(4), "<b>"), clock):
        pass
    shown, = notebook
    assert shown.texts()[2] == ["&lt;b&gt;", "50%,", "2/4,", "1/s,", "0:02,",
                                "0:02", "left"]
    assert "width:50.0%" in shown.pages[2]
    assert progress_bar._DONE in shown.pages[-1]
    assert terminal.getvalue() == ""


def test_inner_bar_is_removed_from_notebook(notebook, clock):
    for _ in sl.progress(range(2)):
        list(sl.progress(range(3)))
    outer, *inner = notebook
    assert len(inner) == 2 and [s.pages[-1] for s in inner] == ["", ""]
    assert "100%," in outer.texts()[-1]


def test_ipython_in_a_terminal_is_a_terminal(notebook, terminal, monkeypatch):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython",
                        lambda: types.SimpleNamespace())
    list(sl.progress(range(3)))
    assert not notebook and "3/3" in terminal.getvalue()


def test_log_gets_one_line_per_minute(clock, monkeypatch):
    log = io.StringIO()
    write_to(log, monkeypatch)
    list(run_slowly(sl.progress(range(59), "short"), clock))
    assert log.getvalue() == ""
    list(run_slowly(sl.progress(range(130), "long"), clock))
    first, second, last = log.getvalue().splitlines()
    assert re.fullmatch(r"long  46% \|#+ +\| 60/130, 1/s, 1:00, 1:10 left",
                        first)
    assert "120/130" in second and last.endswith("130/130, 1/s, 2:10")


def test_iterables_without_length_are_counted(terminal, clock):
    list(run_slowly(sl.progress((i for i in range(3)), "read"), clock, 0.01))
    drawn = terminal.lines()[0]
    assert drawn[0] == "read 0, 0:00" and drawn[-1] == "read 3, 100/s, 0:00"


def test_bar_can_be_used_as_context_manager(terminal, clock):
    with sl.progress(range(2)) as bar:
        for _ in run_slowly(bar, clock):
            pass
    assert len(terminal.lines()) == 2 and not progress_bar._open
    list(bar)  # The second loop starts at 0.
    assert terminal.lines()[1][0].startswith("  0%")
    bar.set(loss=0.5)
    list(bar)  # The values belong to the previous loop.
    assert "loss" not in "".join(terminal.lines()[2])
    with pytest.raises(RuntimeError, match="around update"):
        sl.progress(total=3).update()


def test_threads_share_one_bar(terminal, clock):
    with sl.progress(total=2) as bar:
        threads = [threading.Thread(target=bar.update) for _ in range(2)]
        clock.pass_(1.0)
        with progress_bar._lock:
            for thread in threads:
                thread.start()
            time.sleep(0.1)  # Until both threads wait.
        for thread in threads:
            thread.join()
    first, second, last = terminal.lines()[0]
    assert " 1/2, " in second and " 2/2, " in last


def test_bar_is_drawn_at_most_ten_times_a_second(terminal, clock):
    list(run_slowly(sl.progress(range(1000)), clock, 0.001))
    assert 10 <= len(terminal.lines()[0]) <= 12


def test_a_narrow_or_old_terminal(terminal, clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setattr(Terminal, "encoding", "ascii")
    list(run_slowly(sl.progress(range(4), "training"), clock, 3600))
    assert all(line.isascii() and len(line) < 24
               for line in terminal.lines()[0])
    monkeypatch.setenv("TERM", "dumb")
    before = terminal.getvalue()
    list(sl.progress(range(4)))
    assert terminal.getvalue() == before
