"""The examples run, in few steps, and learn something."""

import os
import re
import runpy
import subprocess
import sys

import pytest

EXAMPLES = os.path.join(os.path.dirname(__file__), os.pardir, "examples")


@pytest.fixture
def example(monkeypatch, capsys):
    """Runs an example; what it prints."""
    def run(name, *arguments):
        path = os.path.join(EXAMPLES, name + ".py")
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out
    return run


def numbers(text, pattern):
    return [float(n) for n in re.findall(pattern + r" ([-\d.]+)", text)]


def test_a_line_is_fitted(example):
    assert example("linear_regression") == "y = 3.000 x + -1.000\n"


def test_roots_in_a_loop(example):
    out = example("while_loop")
    assert "sqrt(2) = 1.41421 after" in out
    assert "sqrt(1e+06) = 1000 after" in out
    assert "sqrt(-1) = nan after 0 steps" in out


def test_a_gradient_of_ones_own(example):
    assert example("custom_gradient") == "z  = [0. 4.]\ndz = [0. 4.]\n"


@pytest.mark.parametrize("name,arguments,pattern,part", [
    ("embedding_sparse", (800,), "loss", 0.2),
    ("dynamic_rnn", (200,), "error", 0.4),
    ("adaptive_computation", (50,), "error", 0.2),
    ("mixture_of_experts", (500,), "error", 0.8),
    ("seq2seq", (150,), "loss", 0.4)])
def test_losses_become_small(example, name, arguments, pattern, part):
    losses = numbers(example(name, *arguments), pattern)
    assert len(losses) > 1 and losses[-1] < part * losses[0]


def test_a_graph_is_written_and_read(example, tmp_path):
    assert example("graph_io", tmp_path / "g.pb") == "y = 321\n"


def test_a_step_is_traced(example, tmp_path):
    assert "events in" in example("save_trace", tmp_path / "t.json")
    assert (tmp_path / "t.json").stat().st_size > 100


def test_a_model_of_characters_writes(example, tmp_path):
    (tmp_path / "text").write_text("abcd" * 100)
    out = example("language_model", tmp_path / "text", 50)
    bits = numbers(out, r"step +\d+:")
    assert bits[-1] < 1 < bits[0]
    written = out.split("It writes:\n")[1]
    assert len(written) == 401 and "abcdabcd" in written


def test_training_within_the_graph(example):
    out = example("training_loop")
    assert numbers(out, "loss")[0] < 1e-3 + 1e-4
    assert [round(n) for n in numbers(out, "=")] == [0, 1, 1, 0]


def test_an_agent_within_the_graph(example):
    out = example("reinforcement_learning", 80)
    assert len(numbers(out, "took")) == 4 and "times as fast" in out


def test_a_script_for_tensorflow_runs_unchanged(tmp_path):
    """(Images are made up where the folder has none.)"""
    done = subprocess.run(
        [sys.executable, "-m", "sluice.run",
         os.path.join(EXAMPLES, "tensorflow_script.py"), "--train_steps=30",
         "--eval_every=15", "--batch_size=32", "--learning_rate=0.003",
         f"--data_dir={tmp_path}"],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "parameters" in done.stderr and "made up" in done.stderr
    accuracies = numbers(done.stdout, "accuracy")
    assert len(accuracies) == 3 and accuracies[-1] > 0.9
