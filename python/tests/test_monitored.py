"""Monitored sessions and their hooks."""

import gc
import json
import socket
import threading

import numpy as np
import pytest
import sluice.compat.v1 as tf

T = tf.train


@pytest.fixture
def logged(monkeypatch):
    """Collects the log messages of hooks."""
    from sluice.compat.training import session_hooks
    seen = []
    monkeypatch.setattr(
        session_hooks.logging, "info",
        lambda text, *args: seen.append(text % args if args else text))
    return seen


def counting():
    step = T.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


class Recorder(T.SessionRunHook):
    def __init__(self, args=None):
        self.calls, self.results, self._args = [], [], args

    def begin(self):
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        assert isinstance(session, tf.Session)
        assert isinstance(coord, T.Coordinator)
        self.calls.append("created")

    def before_run(self, run_context):
        self.calls.append("before")
        return self._args

    def after_run(self, run_context, run_values):
        self.calls.append("after")
        self.results.append(run_values.results)

    def end(self, session):
        self.calls.append("end")


def test_hooks_are_called_around_steps():
    x = tf.placeholder_with_default(3.0, [])
    y = x * 2.0
    hook, none = Recorder(T.SessionRunArgs({"x": x}, {x: 5.0})), Recorder()
    local = tf.get_local_variable("l", initializer=tf.constant(7.0))
    w = tf.get_variable("w", initializer=tf.constant(1.0))
    with T.MonitoredSession(hooks=[hook, none]) as session:
        assert session.graph is tf.get_default_graph()
        assert session.graph.finalized
        assert session.run([y, local, w]) == [10, 7, 1]
    assert hook.calls == ["begin", "created", "before", "after", "end"]
    assert hook.results == [{"x": 5.0}] and none.results == [None]
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(y)
    assert session.should_stop()


def test_steps_are_counted_and_stopped():
    step, add = counting()
    ran = 0
    with T.MonitoredTrainingSession(
            hooks=[T.StopAtStepHook(num_steps=5)]) as session:
        while not session.should_stop():
            session.run(add)
            ran += 1
        with pytest.raises(RuntimeError, match="should_stop"):
            session.run(add)
    assert ran == 5
    with T.SingularMonitoredSession(
            hooks=[T.StopAtStepHook(last_step=3)]) as session:
        while not session.should_stop():
            session.run(add)
        assert session.raw_session().run(step) == 3
    for wrong in ({}, dict(num_steps=1, last_step=2)):
        with pytest.raises(ValueError):
            T.StopAtStepHook(**wrong)


def test_hooks_report_missing_global_step():
    for hook in (T.StopAtStepHook(1), T.StepCounterHook()):
        with pytest.raises(RuntimeError, match="Global step should be created"):
            T.MonitoredSession(hooks=[hook])


def test_errors_end_the_session_without_the_ends_of_hooks():
    hook = Recorder()
    tf.constant(1)
    with pytest.raises(ZeroDivisionError):
        with T.MonitoredSession(hooks=[hook]):
            raise ZeroDivisionError
    assert hook.calls == ["begin", "created"]
    hook = Recorder()
    with T.MonitoredSession(hooks=[hook]):
        raise tf.errors.OutOfRangeError(None, None, "no more data")
    assert hook.calls[-1] == "end"


def test_lost_task_creates_a_new_session():
    class Loses(T.SessionRunHook):
        left = 2

        def after_run(self, run_context, run_values):
            self.left -= 1
            if self.left >= 0:
                raise tf.errors.AbortedError(None, None, "lost")

    step, add = counting()
    hook = Recorder()
    with T.MonitoredSession(hooks=[hook, Loses()]) as session:
        assert session.run(add) == 1  # It starts from the initial value.
    assert hook.calls.count("created") == 3
    with pytest.raises(tf.errors.AbortedError):
        with T.SingularMonitoredSession(hooks=[Loses()]) as session:
            session.run(add)


@pytest.fixture
def warned(monkeypatch):
    """Collects the warnings of monitored sessions."""
    from sluice.compat.training import monitored_session
    seen = []
    monkeypatch.setattr(monitored_session.logging, "warning",
                        lambda text, *args: seen.append(text % args))
    return seen


class Cluster:
    """A worker and two parameter servers in this process, which can restart."""

    def __init__(self):
        def free():
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                return f"127.0.0.1:{s.getsockname()[1]}"

        self.spec = {"ps": [free(), free()], "worker": [free()]}
        self.servers = {}
        for job, tasks in self.spec.items():
            for task in range(len(tasks)):
                self.restart(job, task)
        self.target = self.servers["worker", 0].target

    def restart(self, job, task):
        self.servers.pop((job, task), None)
        gc.collect()
        self.servers[job, task] = T.Server(self.spec, job, task)


def counting_on_a_cluster():
    with tf.device("/job:ps/task:0"):
        step, add = counting()
    with tf.device("/job:ps/task:1"):
        w = tf.get_variable("w", initializer=tf.constant(5.0))
    return step, tf.group(add, tf.assign_add(w, 1.0)), w


def test_training_restart_is_reported(warned):
    cluster = Cluster()
    step, add, w = counting_on_a_cluster()
    with T.MonitoredTrainingSession(cluster.target) as session:
        for _ in range(3):
            session.run(add)
        assert session.run([step, w]) == [3, 8] and not warned
        cluster.restart("ps", 1)
        assert session.run([step, w]) == [0, 5]
    lost, again = warned[0], warned[1]
    assert "is recreated" in lost and "/job:ps/replica:0/task:1" in lost
    assert "w (/job:ps/task:1)" in again and "global_step" not in again
    assert "starts again from the initial values of all variables" in again


def test_variables_of_surviving_tasks_are_kept(warned):
    cluster = Cluster()
    step, add, w = counting_on_a_cluster()
    with T.MonitoredTrainingSession(cluster.target) as session:
        session.run(add)
        cluster.restart("worker", 0)
        assert session.run([step, w]) == [1, 6]
    assert "No variable was lost" in warned[-1]
    assert "global_step = 1" in warned[-1]


def test_training_without_restart_ends(warned):
    cluster = Cluster()
    step, add, w = counting_on_a_cluster()
    with pytest.raises(tf.errors.DataLossError,
                       match=r"w \(/job:ps/task:1\).*no checkpoint"):
        with T.MonitoredTrainingSession(
                cluster.target, reinitialize_lost_state=False) as session:
            session.run(add)
            cluster.restart("ps", 1)
            session.run(add)
    with tf.Session(cluster.target) as session:
        assert session.run(step) == 1


def test_chief_warns_when_it_overwrites_values(warned):
    cluster = Cluster()
    step, add, _ = counting_on_a_cluster()
    for _ in range(2):
        with T.MonitoredTrainingSession(cluster.target) as session:
            session.run(add)
            session.run(add)
            assert session.run(step) == 2
    assert len(warned) == 1 and "global_step = 2" in warned[0]
    assert cluster.target in warned[0] and "are lost" in warned[0]


def test_hooks_may_not_feed_the_same_tensor():
    x = tf.placeholder_with_default(1.0, [])
    feeds = T.FeedFnHook(lambda: {x: 2.0})
    with T.MonitoredSession(hooks=[feeds]) as session:
        assert session.run(x) == 2
        with pytest.raises(RuntimeError, match="SessionRunHook and user"):
            session.run(x, {x: 3.0})
    with T.MonitoredSession(hooks=[feeds, T.FeedFnHook(
            lambda: {x: 3.0})]) as session:
        with pytest.raises(RuntimeError, match="two hooks"):
            session.run(x)


def test_tensors_are_logged(logged):
    x = tf.Variable(1.0, name="x")
    step, add = counting()
    hooks = [T.LoggingTensorHook(["x:0"], every_n_iter=2),
             T.LoggingTensorHook({"twice": x * 2.0}, at_end=True),
             T.LoggingTensorHook({"x": x}, every_n_iter=100,
                                 formatter=lambda v: f"x is {v['x']}")]
    with T.MonitoredSession(hooks=hooks) as session:
        for _ in range(4):
            session.run(add)
    assert logged[:2] == ["x:0 = 1.0", "x is 1.0"]
    assert logged[2].startswith("x:0 = 1.0 (")
    assert logged[3:] == ["twice = 2.0"]
    del logged[:]
    with T.MonitoredSession(hooks=[T.StepCounterHook(2)]) as session:
        for _ in range(5):
            session.run(add)
    assert len(logged) == 2 and "global_step/sec: " in logged[0]
    with pytest.raises(ValueError, match="exactly one"):
        T.LoggingTensorHook([x])


def test_profiler_hook_traces_steps(tmp_path):
    step, add = counting()
    product = tf.matmul(*[tf.random_uniform([8, 8])] * 2, name="product")
    hook = T.ProfilerHook(save_steps=3, output_dir=str(tmp_path))
    with T.MonitoredSession(hooks=[hook]) as session:
        for _ in range(8):
            session.run([add, product])
    traces = sorted(tmp_path.glob("timeline-*.json"))
    assert [p.name for p in traces] == ["timeline-3.json", "timeline-6.json"]
    events = json.loads(traces[0].read_text())["traceEvents"]
    assert any("product" in json.dumps(e) for e in events)
    [events] = tmp_path.glob("events.*")
    tags = [e.tagged_run_metadata.tag for e in T.summary_iterator(str(events))
            if e.HasField("tagged_run_metadata")]
    assert tags == ["step_3", "step_6"]
    with pytest.raises(ValueError, match="(?i)exactly one"):
        T.ProfilerHook()


def test_nan_losses_stop_training():
    loss = tf.placeholder(tf.float32, [])
    with T.MonitoredSession(hooks=[T.NanTensorHook(loss)]) as session:
        session.run(loss, {loss: 1.0})
        with pytest.raises(T.NanLossDuringTrainingError):
            session.run(loss, {loss: np.nan})
    with T.MonitoredSession(hooks=[T.NanTensorHook(loss, False)]) as session:
        session.run(loss, {loss: np.nan})
        assert session.should_stop()


def test_final_ops_hook_returns_final_values():
    step, add = counting()
    final = T.FinalOpsHook({"step": step})
    with T.MonitoredSession(hooks=[final]) as session:
        session.run_step_fn(lambda step_context: step_context.run_with_hooks(add))
        session.run_step_fn(lambda step_context: step_context.session.run(add))
        session.run_step_fn(lambda step_context: step_context.request_stop())
    assert final.final_ops_values == {"step": 2}


def test_scaffold_initializes_the_graph():
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    value = tf.placeholder(tf.float32, [])
    nothing, report = tf.no_op(), tf.report_uninitialized_variables()
    seen = []
    scaffold = T.Scaffold(init_op=w.assign(value), init_feed_dict={value: 4.0},
                          init_fn=lambda s, session: seen.append(
                              (s, session.run(w))))
    with T.MonitoredSession(T.ChiefSessionCreator(scaffold)) as session:
        assert session.run(w) == 4
    assert seen == [(scaffold, 4)]
    with pytest.raises(RuntimeError, match="not initialized: w"):
        T.MonitoredSession(T.ChiefSessionCreator(T.Scaffold(
            init_op=nothing)))
    manager = T.SessionManager(ready_op=report)
    session, ready = manager.recover_session()
    assert not ready
    with manager.prepare_session(init_op=w.initializer) as session:
        assert session.run(w) == 0
    with pytest.raises(tf.errors.DeadlineExceededError):
        manager.wait_for_session(max_wait_secs=0)


def test_threads_end_with_the_session():
    class Starts(T.SessionRunHook):
        def after_create_session(self, session, coord):
            self.thread = threading.Thread(target=coord.wait_for_stop)
            coord.register_thread(self.thread)
            self.thread.start()

    hook = Starts()
    tf.constant(1)
    with T.MonitoredSession(hooks=[hook]) as session:
        assert hook.thread.is_alive() and not session.should_stop()
    assert not hook.thread.is_alive()


def test_session_manager_checks_readiness():
    v, w = tf.Variable(1, name="v"), tf.Variable(2, name="w")
    old = tf.assert_variables_initialized()
    init, report_v = v.initializer, tf.report_uninitialized_variables([v])
    with T.SessionManager(ready_op=old).prepare_session(
            init_op=tf.global_variables_initializer()) as session:
        assert session.run([v, w]) == [1, 2]
    with pytest.raises(RuntimeError, match="uninitialized value w"):
        T.SessionManager(ready_op=old).prepare_session(init_op=init)
    with pytest.raises(ValueError, match="must also pass a local_init_op"):
        T.SessionManager(ready_for_local_init_op=old)
    local = T.SessionManager(ready_for_local_init_op=report_v,
                             local_init_op=w.initializer)
    with pytest.raises(RuntimeError, match="ready for local_init.*: v"):
        local.prepare_session(init_fn=lambda session: None)
    session, restored = local.recover_session()
    assert not restored
    session.close()


@pytest.mark.parametrize("form", [lambda op: op, lambda op: [op],
                                  lambda op: {"add": op}])
def test_evaluation_runs_until_a_hook_stops_it(form, logged):
    training = tf.contrib.training
    total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
    add = total.assign_add(2.0)
    found = training.evaluate_once(
        None, eval_ops=form(add), final_ops={"total": total},
        hooks=[training.StopAfterNEvalsHook(3)])
    assert found == {"total": 6.0}
    assert tf.get_collection(tf.GraphKeys.EVAL_STEP) == [
        training.get_or_create_eval_step()]
    assert training.evaluate_once(None, final_ops=total) == 0.0


def test_evaluation_progress_is_logged(monkeypatch):
    from sluice.contrib import evaluation
    told = []
    monkeypatch.setattr(evaluation.logging, "info",
                        lambda text, *args: told.append(text % args))
    count = tf.get_variable("count", [], tf.int64)
    evaluation.evaluate_once(None, eval_ops=count, hooks=[
        evaluation.StopAfterNEvalsHook(25)])
    assert told == [f"Evaluation [{n}/25]" for n in (
        *range(2, 25, 2), 25)]


def test_saver_listeners_have_default_methods():
    listener = tf.train.CheckpointSaverListener()
    listener.begin()
    assert listener.after_save(None, 1) is None
    assert tf.estimator.CheckpointSaverListener is type(listener)
    assert tf.estimator.SessionRunHook is tf.train.SessionRunHook


def test_graph_can_grow_after_its_session():
    gs = T.get_or_create_global_step()
    for _ in range(2):
        add = gs.assign_add(1)
        with T.MonitoredSession(hooks=[T.StopAtStepHook(num_steps=1)]) as s:
            assert s.run(add) == 1
            with pytest.raises(RuntimeError, match="finalized"):
                tf.no_op()
    tf.get_default_graph().finalize()
    with T.MonitoredSession(T.ChiefSessionCreator()):
        pass
    assert tf.get_default_graph().finalized


def test_step_function_argument_name_is_checked():
    with T.MonitoredSession() as s:
        for wrong in (lambda: 1, lambda context: 1):
            with pytest.raises(ValueError, match="step_context"):
                s.run_step_fn(wrong)


def test_step_function_is_called_again_when_a_task_is_lost():
    counter = tf.get_variable("counter", initializer=0.0, use_resource=False)
    count = counter.assign_add(1.0)
    calls = []

    def step(step_context):
        calls.append(step_context.session)
        value = step_context.run_with_hooks(count)
        if len(calls) == 1:
            raise tf.errors.AbortedError(None, None, "lost")
        return value

    with T.MonitoredSession() as session:
        assert session.run_step_fn(step) == 1  # Of a new session.
    assert len(calls) == 2 and calls[0] is not calls[1]


def test_session_is_made_again_when_a_task_is_lost_meanwhile():
    tf.get_variable("v", initializer=1.0)
    failed = []

    def init(scaffold, session):
        if not failed:
            failed.append(session)
            raise tf.errors.UnavailableError(None, None, "lost")

    with T.MonitoredSession(T.ChiefSessionCreator(T.Scaffold(init_fn=init))):
        assert failed
    failed.clear()
    with pytest.raises(tf.errors.UnavailableError):
        T.SingularMonitoredSession(scaffold=T.Scaffold(init_fn=init))


def test_closing_twice_is_an_error():
    tf.constant(1.0)
    with pytest.raises(RuntimeError, match="already closed"):
        with T.MonitoredSession() as session:
            session.close()
    with pytest.raises(ValueError, match="mine"):  # Not hidden by another.
        with T.MonitoredSession() as session:
            session.close()
            raise ValueError("mine")


def test_options_of_hooks_are_merged():
    class Asks(T.SessionRunHook):
        def __init__(self, **options):
            self.options = tf.RunOptions(**options)

        def before_run(self, run_context):
            return T.SessionRunArgs(None, options=self.options)

        def after_run(self, run_context, run_values):
            self.options = run_values.options

    hooks = [Asks(timeout_in_ms=30000, output_partition_graphs=True),
             Asks(timeout_in_ms=60000,
                  report_tensor_allocations_upon_oom=True)]
    one = tf.constant(1)
    with T.MonitoredSession(hooks=hooks) as session:
        assert session.run(one) == 1
    merged = hooks[0].options
    assert merged.timeout_in_ms == 60000
    assert merged.output_partition_graphs
    assert merged.report_tensor_allocations_upon_oom
    with pytest.raises(TypeError, match="not a Scaffold instance"):
        T.Scaffold(copy_from_scaffold=1)


def test_summaries_are_written_each_so_many_steps(tmp_path):
    step = T.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    summary = tf.summary.scalar("s", tf.constant(1.0))
    hook = T.SummarySaverHook(save_steps=8, output_dir=str(tmp_path),
                              summary_op=summary)
    with T.MonitoredSession(hooks=[hook]) as session:
        for _ in range(30):
            session.run(train)
    tf.summary.FileWriterCache.clear()
    [file] = tmp_path.iterdir()
    assert [e.step for e in T.summary_iterator(str(file))
            if e.HasField("summary")] == [1, 9, 17, 25]


def test_step_that_stays_the_same_is_reported(monkeypatch):
    from sluice.compat.training import session_hooks
    warned = []
    monkeypatch.setattr(session_hooks.logging, "log_first_n",
                        lambda level, text, n, *args: warned.append(text % args))
    T.get_or_create_global_step()
    one = tf.constant(1)
    with T.MonitoredSession(hooks=[T.StepCounterHook()]) as session:
        for _ in range(20):
            session.run(one)
        assert not warned
        session.run(one)
    assert "has not been increased" in warned[0]


class FailsInAThread(T.SessionRunHook):
    """A thread fails beside the second step of the first session."""

    def __init__(self, error, fail_step=False):
        self._error, self._fail_step, self.coords = error, fail_step, []
        self._steps = 0

    def after_create_session(self, session, coord):
        self.coords.append(coord)

    def after_run(self, run_context, run_values):
        self._steps += 1
        if self._steps == 2:
            thread = threading.Thread(target=self._fail)
            thread.start()
            thread.join()
            if self._fail_step:
                raise tf.errors.CancelledError(None, None, "cancelled by the loss")

    def _fail(self):
        with self.coords[0].stop_on_exception():
            raise self._error


@pytest.mark.parametrize("fails", [False, True])
def test_loss_that_a_thread_met_creates_a_new_session(fails):
    one = tf.constant(1)
    hook = FailsInAThread(tf.errors.AbortedError(None, None, "lost"), fails)
    with T.MonitoredSession(hooks=[hook]) as session:
        for _ in range(3):
            assert not session.should_stop()
            assert session.run(one) == 1
        assert not session.should_stop()
    assert len(hook.coords) == 2
    hook = FailsInAThread(tf.errors.AbortedError(None, None, "lost"))
    with pytest.raises(tf.errors.AbortedError, match="lost"):
        with T.SingularMonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(one)
    assert len(hook.coords) == 1


def test_failure_of_a_thread_stops_the_loop_and_is_raised_at_its_end():
    one = tf.constant(1)
    hook, steps = FailsInAThread(ValueError("wrong")), 0
    with pytest.raises(ValueError, match="wrong"):
        with T.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(one)
                steps += 1
            assert session.run(one) == 1  # As long as the block lasts.
            steps += 1
    assert steps == 3 and len(hook.coords) == 1


def test_final_ops_that_need_data_are_reported(monkeypatch):
    from sluice.compat.training import session_hooks
    warned = []
    monkeypatch.setattr(session_hooks.logging, "warning",
                        lambda text, *args: warned.append(text))
    number = tf.data.Dataset.range(1).make_one_shot_iterator().get_next()
    hook = T.FinalOpsHook(number)
    session = T.MonitoredSession(hooks=[hook])
    session.run(number)
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        session.close()
    assert "dependency back to some input source" in warned[0]
