"""A made treebank, in the format of the Stanford Sentiment Treebank.

The sentiment of a sentence, from 0 (very negative) to 4 (very positive), follows
from that of its parts by rules: "not" turns it around, "very" makes it stronger,
and what comes after "but" is what counts.

  python3 made_treebank.py [SENTENCES [SEED]] > trees.txt
"""

import random
import sys

OPINIONS = [["awful", "terrible"], ["dull", "weak"], ["long", "French"],
            ["good", "funny"], ["great", "superb"]]


def word(label, text):
    return label, "(%d %s)" % (label, text)


def join(label, *trees):
    return label, "(%d %s)" % (label, " ".join(text for _, text in trees))


def opinion(rng):
    label = rng.randrange(5)
    tree = word(label, rng.choice(OPINIONS[label]))
    if rng.randrange(3) == 0:
        tree = join(0 if label < 2 else 4 if label > 2 else 2,
                    word(2, "very"), tree)
    if rng.randrange(3) == 0:
        tree = join(4 - tree[0], word(2, "not"), tree)
    return tree


def clause(rng):
    thing = rng.choice(["film", "plot", "cast", "music"])
    said = opinion(rng)
    return join(said[0], join(2, word(2, "the"), word(2, thing)),
                join(said[0], word(2, "is"), said))


def sentence(rng):
    tree = clause(rng)
    while rng.randrange(2) == 0:
        more, link = clause(rng), rng.choice(["and", "but"])
        both = more[0] if link == "but" else min(max(
            tree[0] + more[0] - 2, 0), 4)
        tree = join(both, tree, join(more[0], word(2, link), more))
    return tree


def sentences(count, seed):
    """Returns this many different trees, as lines."""
    rng, lines = random.Random(seed), {}
    while len(lines) < count:
        lines[sentence(rng)[1] + "\n"] = True
    return list(lines)


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]] + [600, 1][len(sys.argv) - 1:]
    sys.stdout.writelines(sentences(*numbers))
