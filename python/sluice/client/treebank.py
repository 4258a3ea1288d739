"""Treebanks: parse trees with a label at each node, from files."""

import collections

from sluice import _core


class Treebank(collections.namedtuple(
        "Treebank", ["left", "right", "word", "label", "roots", "words"])):
    """Binary trees as columns, as a graph is fed with them.

    The nodes of a sentence follow those of the sentence before it. Children
    precede their parent, so the root is the last node of its sentence.

    Attributes:
      left, right: for each node the numbers of its children, or -1 at a leaf;
        int32 arrays, as the others.
      word: for each leaf its word, a place in `words`; -1 at other nodes.
      label: for each node its label.
      roots: for each sentence the number of its root.
      words: the list of words.
    """

    __slots__ = ()


def read_treebank(path, labels=5, vocabulary=()):
    """Reads a file in the format of the Stanford Sentiment Treebank.

    It has a tree per sentence, in which each bracket holds a label and then a
    word or two trees: `(3 (2 The) (4 (3 great) (2 film)))`. Trees may be on any
    number of lines, and of any depth.

    Args:
      path: the name of the file.
      labels: labels are 0 to `labels - 1`.
      vocabulary: the words to know, each once, such as the `words` of another
        treebank. The number of any other word is then `len(vocabulary)`. Empty:
        all words, in the order in which they first appear.

    Returns:
      A `Treebank`.

    Raises:
      errors.NotFoundError: if there is no such file.
      errors.InvalidArgumentError: for anything else than such trees, with the
        line and the column (in bytes); for a word that is twice in the
        vocabulary.
    """
    path = path.decode() if isinstance(path, bytes) else str(path)
    return Treebank(*_core.read_treebank(path, labels, list(vocabulary)))


def parse_treebank(text, labels=5, vocabulary=(), name="treebank"):
    """Returns the trees of a text; see `read_treebank`.

    Args:
      text: a str or bytes.
      labels, vocabulary: see `read_treebank`.
      name: the name of the text in messages.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogateescape")
    return Treebank(*_core.parse_treebank(text, labels, list(vocabulary),
                                          name))
