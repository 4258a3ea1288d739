"""Files of parse trees: sluice.read_treebank."""

import numpy as np
import pytest

import sluice
import sluice.compat.v1 as tf

TREES = "(3 (2 The) (4 (3 great) (2 film)))\n(0 (1 The) (0 awful))\n"


def test_trees_become_columns(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text(TREES)
    for bank in (sluice.read_treebank(path), sluice.parse_treebank(TREES),
                 sluice.read_treebank(str(path).encode()),
                 sluice.parse_treebank(TREES.encode())):
        assert bank.left.tolist() == [-1, -1, -1, 1, 0, -1, -1, 5]
        assert bank.right.tolist() == [-1, -1, -1, 2, 3, -1, -1, 6]
        assert bank.word.tolist() == [0, 1, 2, -1, -1, 0, 3, -1]
        assert bank.label.tolist() == [2, 3, 2, 4, 3, 1, 0, 0]
        assert bank.roots.tolist() == [4, 7]
        assert bank.words == ["The", "great", "film", "awful"]
        assert all(c.dtype == np.int32 for c in bank[:5])


def test_other_words_than_the_vocabularys_are_unknown():
    words = sluice.parse_treebank("(2 (2 The) (2 film))").words
    bank = sluice.parse_treebank(TREES, vocabulary=words)
    assert bank.words == ["The", "film"]
    assert bank.word.tolist() == [0, 2, 1, -1, -1, 0, 2, -1]


def test_words_are_any_bytes():
    text = "(2 (2 Jörg) (2 ".encode() + b"\xff))"
    bank = sluice.parse_treebank(text)
    assert bank.words == ["Jörg", "\udcff"]
    again = sluice.parse_treebank(text, vocabulary=bank.words)
    assert again.word.tolist() == [0, 1, -1]


def test_there_may_be_no_trees():
    bank = sluice.parse_treebank("\n")
    assert bank.words == [] and [len(c) for c in bank[:5]] == [0] * 5


def test_mistakes_are_told_with_their_place(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text(TREES + "(2 (2 film))\n")
    with pytest.raises(tf.errors.InvalidArgumentError, match=(
            r"trees\.txt:3:12: node: expected a word or two children, "
            "got one child; the node begins at 3:1")):
        sluice.read_treebank(path)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="mine:1:2: label: expected a number from 0 to 1"):
        sluice.parse_treebank("(2 a)", labels=2, name="mine")
    with pytest.raises(tf.errors.InvalidArgumentError, match="'a' twice"):
        sluice.parse_treebank("(2 a)", vocabulary=["a", "a"])
    with pytest.raises(tf.errors.NotFoundError, match="none.txt"):
        sluice.read_treebank(tmp_path / "none.txt")
    with pytest.raises(TypeError):
        sluice.parse_treebank("(2 a)", vocabulary=[1])
