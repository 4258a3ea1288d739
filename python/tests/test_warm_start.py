"""tf.train.warm_start: from other models and other vocabularies."""

import numpy as np
import pytest
import sluice.compat.v1 as tf

ROWS = np.float32([[1, 2], [3, 4], [5, 6]])


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a model with words a, b, c, and vocabularies."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("words", initializer=ROWS)
        tf.get_variable("columns", initializer=ROWS.T.copy())
        tf.get_variable("old/bias", initializer=np.float32([7, 8]))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    (tmp_path / "old").write_text("a\nb\nc\n")
    (tmp_path / "new").write_text("c\nd\na\n")
    return path


@pytest.fixture
def vocab(tmp_path):
    """Returns a function that makes a VocabInfo of these vocabularies."""
    def make(num_oov_buckets=0, **more):
        return tf.train.VocabInfo(str(tmp_path / "new"), 3, num_oov_buckets,
                                  str(tmp_path / "old"), **more)
    return make


def test_variables_start_under_other_names(run, checkpoint):
    words = tf.get_variable("words", [3, 2])
    bias = tf.get_variable("bias", [2])
    own = tf.get_variable("own", initializer=1.0, trainable=False)
    tf.train.warm_start(checkpoint, var_name_to_prev_var_name={
        "bias": "old/bias"})
    run(tf.global_variables_initializer())
    np.testing.assert_array_equal(run(words), ROWS)
    assert run(bias).tolist() == [7, 8] and run(own) == 1


@pytest.mark.parametrize("use_resource", [False, True])
def test_words_keep_their_rows(run, checkpoint, vocab, use_resource):
    with tf.variable_scope("", use_resource=use_resource):
        words = tf.get_variable("embedding", [4, 2])
        columns = tf.get_variable("columns", [2, 3])
    tf.train.warm_start(
        checkpoint, None,
        {"embedding": vocab(1, backup_initializer=tf.constant_initializer(9.0)),
         "columns": vocab(axis=1)}, {"embedding": "words"})
    run(tf.global_variables_initializer())
    assert run(words).tolist() == [[5, 6], [9, 9], [1, 2], [9, 9]]
    assert run(columns).tolist() == [[5, 0, 1], [6, 0, 2]]


def test_parts_start_as_parts_of_the_whole(run, checkpoint, vocab):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
        words = tf.get_variable("words", [4, 2])
        columns = tf.get_variable("columns", [2, 3])
    tf.train.warm_start(checkpoint, ".*", {"words": vocab(1)})
    run(tf.global_variables_initializer())
    whole = run(tf.convert_to_tensor(words))
    assert whole.tolist() == [[5, 6], [0, 0], [1, 2], [0, 0]]
    np.testing.assert_array_equal(run(tf.convert_to_tensor(columns)), ROWS.T)


def test_only_the_wanted_variables_start(run, checkpoint, tmp_path):
    variables = [tf.get_variable(name, shape, trainable=name != "columns",
                                 initializer=tf.zeros_initializer())
                 for name, shape in (("words", [3, 2]), ("columns", [2, 3]))]
    tf.train.warm_start(str(tmp_path), ["col"])
    run(tf.global_variables_initializer())
    assert [run(v).any() for v in variables] == [False, True]
    tf.train.warm_start(checkpoint, [variables[0]])
    run(tf.variables_initializer(variables[:1]))
    np.testing.assert_array_equal(run(variables[0]), ROWS)


def test_names_that_are_not_used_are_errors(checkpoint, vocab):
    tf.get_variable("words", [3, 2])
    with pytest.raises(ValueError, match="not used: {'word'}"):
        tf.train.warm_start(checkpoint, ".*", {"word": vocab()})
    with pytest.raises(ValueError, match="var_name_to_prev_var_name"):
        tf.train.warm_start(checkpoint, None, None, {"word": "words"})
    with pytest.raises(ValueError, match="regular expression"):
        tf.train.warm_start(checkpoint, [3])
    with pytest.raises(ValueError, match="axis"):
        vocab(axis=2)
    tf.get_variable("other", [2])
    with pytest.raises(ValueError, match="not found"):
        tf.train.warm_start(checkpoint)


def test_sizes_must_be_those_of_the_vocabulary(checkpoint, vocab):
    tf.get_variable("words", [5, 2])
    with pytest.raises(ValueError, match="vocabulary of 3 and 1 other words"):
        tf.train.warm_start(checkpoint, ".*", {"words": vocab(1)})


def test_patterns_see_the_names_of_variables_with_their_output(run, checkpoint):
    words = tf.get_variable("words", [3, 2], initializer=tf.zeros_initializer())
    tf.get_variable("words/slot", [3, 2], initializer=tf.zeros_initializer())
    tf.train.warm_start(checkpoint, ["words[^/]"])  # (The slot is not saved.)
    run(tf.global_variables_initializer())
    np.testing.assert_array_equal(run(words), ROWS)
