"""Supervisors: sessions with threads that save and write summaries."""

import time

import pytest

import sluice.compat.v1 as tf


def _counting():
    step = tf.train.get_or_create_global_step()
    return tf.assign_add(step, 1)


def _wait_for(condition):
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def test_a_run_is_saved_and_goes_on(tmp_path):
    with tf.Graph().as_default():
        add = _counting()
        supervisor = tf.train.Supervisor(logdir=tmp_path, save_model_secs=600)
        with supervisor.managed_session() as session:
            # The service's first checkpoint, which could else be the latest.
            while not tf.train.latest_checkpoint(tmp_path):
                time.sleep(0.01)
            for _ in range(5):
                assert not supervisor.should_stop()
                session.run(add)
            supervisor.saver.save(session, supervisor.save_path,
                                  global_step=supervisor.global_step)
        assert supervisor.should_stop()
    with tf.Graph().as_default():
        add = _counting()
        supervisor = tf.train.Supervisor(logdir=tmp_path)
        with supervisor.managed_session() as session:
            assert session.run(add) == 6


def test_an_error_in_the_block_is_raised_at_its_end():
    with tf.Graph().as_default():
        tf.constant(1.0)
        supervisor = tf.train.Supervisor()
        with pytest.raises(ValueError, match="mine"):
            with supervisor.managed_session():
                raise ValueError("mine")
        assert supervisor.should_stop()


def test_the_end_of_the_data_is_no_error():
    with tf.Graph().as_default():
        number = tf.train.limit_epochs(tf.constant([1, 2]), num_epochs=2)
        supervisor = tf.train.Supervisor()
        runs = 0
        with supervisor.managed_session() as session:
            while True:
                session.run(number)
                runs += 1
        assert runs == 2


def test_services_write_checkpoints_and_summaries(tmp_path):
    with tf.Graph().as_default():
        add = _counting()
        tf.summary.scalar("five", tf.constant(5.0))
        supervisor = tf.train.Supervisor(logdir=tmp_path, save_model_secs=0.1,
                                         save_summaries_secs=0.1)
        with supervisor.managed_session() as session:
            session.run(add)
            _wait_for(lambda: list(tmp_path.glob("model.ckpt-*.index")))
            time.sleep(0.3)
        assert (tmp_path / "graph.pbtxt").exists()
    tags, states = set(), []
    for path in tmp_path.glob("events*"):
        for event in tf.train.summary_iterator(str(path)):
            tags.update(value.tag for value in event.summary.value)
            if event.HasField("session_log"):
                states.append(event.session_log.status)
    assert {"five", "global_step/sec"} <= tags
    log = tf.SessionLog
    assert states[0] == log.START and states[-1] == log.STOP
    assert log.CHECKPOINT in states


def test_a_loop_runs_until_the_stop():
    with tf.Graph().as_default():
        tf.constant(1.0)
        supervisor = tf.train.Supervisor()
        calls = []
        with supervisor.managed_session():
            supervisor.loop(0.001, calls.append, args=(1,))
            _wait_for(lambda: len(calls) > 3)
        count = len(calls)
        time.sleep(0.05)
        assert len(calls) == count


def test_only_the_chief_writes():
    with tf.Graph().as_default():
        supervisor = tf.train.Supervisor(is_chief=False)
        with tf.Session() as session:
            with pytest.raises(RuntimeError, match="chief"):
                supervisor.start_standard_services(session)
            with pytest.raises(RuntimeError, match="summary writer"):
                supervisor.summary_computed(session, b"")


def test_basic_loop_retries_a_lost_step():
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        add = tf.assign_add(step, 1)
        supervisor = tf.train.Supervisor()
        sessions = []

        def train(session, limit, error):
            if session not in sessions:
                sessions.append(session)
            if session.run(add) == limit:
                if len(sessions) == 1:
                    raise error
                supervisor.request_stop()

        tf.train.basic_train_loop(
            supervisor, train, args=(2,),
            kwargs={"error": tf.errors.AbortedError(None, None, "lost")})
        assert len(sessions) == 2
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        add = tf.assign_add(step, 1)
        supervisor, sessions = tf.train.Supervisor(), []
        with pytest.raises(ValueError, match="wrong"):
            tf.train.basic_train_loop(supervisor, train,
                                      (1, ValueError("wrong")))
        assert len(sessions) == 1
