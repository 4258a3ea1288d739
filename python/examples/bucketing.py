"""Sentences of different lengths, batched with others of similar length.

So little of a batch is padding.

  python3 bucketing.py
"""

import sluice as sl


def count(name, batches):
    """Prints how many words batches have, and how many of them are padding."""
    words, lengths = batches.make_one_shot_iterator().get_next()
    sizes = [sl.size(words), sl.reduce_sum(lengths)]
    number = total = real = 0
    with sl.Session() as session:
        try:
            while True:
                size, length = session.run(sizes)
                number, total, real = number + 1, total + size, real + length
        except sl.errors.OutOfRangeError:
            pass
    print(f"{name:9} {number:3d} batches, {total:6d} words, "
          f"{100 * (total - real) / total:4.1f}% of them padding")


def sentence(_):
    """Returns 1 to 60 random numbers of words, and how many there are."""
    length = sl.random_uniform([], 1, 61, dtype=sl.int32)
    return sl.random_uniform([length], 1, 10000, dtype=sl.int32), length


sl.set_random_seed(1)
sentences = sl.data.Dataset.range(4000).map(sentence)
count("shuffled", sentences.padded_batch(32, ([None], [])))
count("bucketed", sentences.apply(
    sl.data.experimental.bucket_by_sequence_length(
        lambda words, length: length, [10, 20, 30, 40, 50],
        [64, 48, 32, 32, 24, 24])))
