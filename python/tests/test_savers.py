"""Savers, readers of checkpoints, and training that goes on from one."""

import glob
import logging
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import sluice.compat.v1 as tf

T = tf.train


def fresh(build):
    """Runs `build` in a new graph."""
    with tf.Graph().as_default():
        return build()


@pytest.fixture(params=[False, True], ids=["references", "resources"])
def use_resource(request):
    return request.param


def saved(path, values, step=None, use_resource=False, **options):
    """Saves variables; returns the checkpoint's path."""
    def build():
        for name, value in values.items():
            tf.get_variable(name, initializer=tf.constant(value),
                            use_resource=use_resource)
        saver = T.Saver(**options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return saver.save(session, str(path), global_step=step)
    return fresh(build)


def test_variables_round_trip(tmp_path, use_resource):
    values = {"a": np.arange(6.0).reshape(2, 3), "b/c": np.int64(7),
              "s": np.array([b"x", b""], object), "flag": np.array([True])}
    path = saved(tmp_path / "m" / "ckpt", values, 5, use_resource)
    assert path == str(tmp_path / "m" / "ckpt-5")
    assert T.latest_checkpoint(tmp_path / "m") == path
    assert os.path.exists(path + ".meta")
    made = {name: tf.get_variable(
        name, initializer=tf.zeros_like(tf.constant(value)),
        use_resource=use_resource) for name, value in values.items()}
    with tf.Session() as session:
        T.Saver().restore(session, path)
        for name, value in values.items():
            assert np.array_equal(session.run(made[name]), value)


def test_nodes_have_the_names_that_meta_graphs_expect():
    tf.get_variable("v", [2], use_resource=False)
    definition = T.Saver().as_saver_def()
    assert definition.filename_tensor_name == "save/Const:0"
    assert definition.save_tensor_name == "save/control_dependency:0"
    assert definition.restore_op_name == "save/restore_all"
    names = {n.name for n in tf.get_default_graph().as_graph_def().node}
    assert {"save/filename/input", "save/filename", "save/SaveV2/tensor_names",
            "save/SaveV2/shape_and_slices", "save/SaveV2",
            "save/RestoreV2/tensor_names", "save/RestoreV2",
            "save/Assign"} <= names


def test_sharded_savers_write_a_file_for_each_device(tmp_path):
    with tf.device("/cpu:0"):
        tf.get_variable("a", initializer=1.0)
    with tf.device("/cpu:1"):
        tf.get_variable("b", initializer=2.0)
    saver = T.Saver(sharded=True)
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        assert len(glob.glob(path + ".data-*-of-00002")) == 2
        assert not glob.glob(str(tmp_path / "*_temp*"))
        saver.restore(session, path)
    reader = T.NewCheckpointReader(path)
    assert reader.get_tensor("a") == 1 and reader.get_tensor("b") == 2


def test_parts_are_saved_as_one_tensor(tmp_path):
    whole = np.arange(10.0, dtype=np.float32).reshape(5, 2)
    parts = tf.get_variable(
        "p", initializer=tf.constant(whole),
        partitioner=tf.fixed_size_partitioner(2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = T.Saver().save(session, str(tmp_path / "m"))
    assert T.list_variables(path) == [("p", [5, 2])]
    assert np.array_equal(T.load_variable(path, "p"), whole)

    def build():
        p = tf.get_variable("p", [5, 2], partitioner=(
            tf.fixed_size_partitioner(3)))
        with tf.Session() as session:
            T.Saver().restore(session, path)
            return session.run(tf.convert_to_tensor(p))
    assert np.array_equal(fresh(build), whole)
    assert len(list(parts)) == 2


def test_variables_are_renamed_and_selected(tmp_path):
    path = saved(tmp_path / "m", {"old": 3.0, "other": 4.0})
    new = tf.get_variable("new", initializer=0.0)
    kept = tf.get_variable("kept", initializer=5.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        T.Saver({"old": new}).restore(session, path)
        assert session.run([new, kept]) == [3, 5]


def test_a_tensor_takes_another_shape_if_asked(tmp_path, use_resource):
    path = saved(tmp_path / "m", {"v": np.arange(6.0)})
    v = tf.get_variable("v", [2, 3], tf.float64, use_resource=use_resource)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError):
            T.Saver().restore(session, path)
        T.Saver(reshape=True).restore(session, path)
        assert np.array_equal(session.run(v), np.arange(6.0).reshape(2, 3))


def test_a_checkpoint_of_another_model_says_how_it_differs(tmp_path):
    path = saved(tmp_path / "m", {"dense/kernel": np.zeros([2, 3]),
                                  "dense/bias": np.zeros(3)})
    tf.get_variable("dense/kernell", [2, 3])
    tf.get_variable("dense/bias", [4], tf.float64)
    with tf.Session() as session, pytest.raises(
            tf.errors.NotFoundError) as caught:
        T.Saver().restore(session, path)
    text = str(caught.value)
    assert "'dense/kernell' is not in the checkpoint; nearest: 'dense/kernel'" \
        in text
    assert "'dense/bias': expected double[4], got double[3]" in text
    assert "Key dense/kernell not found in checkpoint" in text


@pytest.mark.parametrize("dtype, words", [
    (tf.float32, "lhs shape= [4] rhs shape= [3]"),
    (tf.int32, "expected dtype int32 does not equal original dtype float")])
def test_differences_have_the_words_of_tensorflow(tmp_path, dtype, words):
    path = saved(tmp_path / "m", {"v": np.zeros(3, np.float32)})
    tf.get_variable("v", [4], dtype)
    with tf.Session() as session, pytest.raises(
            tf.errors.InvalidArgumentError) as caught:
        T.Saver().restore(session, path)
    assert words in str(caught.value)


def test_resources_are_copied_to_the_cpu_of_their_task():
    with tf.device("/job:ps/device:GPU:0"):
        tf.get_variable("v", [2], use_resource=True)
    T.Saver()
    save, = (op for op in tf.get_default_graph().get_operations()
             if op.type == "SaveV2")
    assert save.inputs[3].device == "/job:ps/device:CPU:0"


def test_savers_that_keep_all_checkpoints_list_none(tmp_path):
    tf.get_variable("v", initializer=1.0)
    for keep in (None, 0):
        saver = T.Saver(max_to_keep=keep)
        folder = tmp_path / str(keep)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            paths = [saver.save(session, str(folder / "m"), n)
                     for n in range(7)]
        assert saver.last_checkpoints == []
        assert all(map(T.checkpoint_exists, paths))
        assert T.latest_checkpoint(folder) == paths[-1]


def test_old_checkpoints_are_deleted(tmp_path):
    tf.get_variable("v", initializer=1.0)
    saver = T.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        paths = [saver.save(session, str(tmp_path / "m"), n) for n in range(4)]
    assert saver.last_checkpoints == paths[2:]
    assert [T.checkpoint_exists(p) for p in paths] == [0, 0, 1, 1]
    assert not os.path.exists(paths[0] + ".meta")
    state = T.get_checkpoint_state(tmp_path)
    assert list(state.all_model_checkpoint_paths) == paths[2:]
    again = T.Saver(max_to_keep=2)
    again.recover_last_checkpoints(state.all_model_checkpoint_paths)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        again.save(session, str(tmp_path / "m"), 9)
    assert [T.checkpoint_exists(p) for p in paths] == [0, 0, 0, 1]


def test_one_is_kept_for_good_each_time_the_hours_have_passed(tmp_path):
    v = tf.get_variable("v", initializer=1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        saver = T.Saver(max_to_keep=2, keep_checkpoint_every_n_hours=0.2 / 3600)
        time.sleep(0.3)  # The time counts from when the saver was made.
        first = saver.save(session, str(tmp_path / "m"), 0)
        paths = [saver.save(session, str(tmp_path / "m"), n) for n in (1, 2)]
    assert saver.last_checkpoints == paths
    assert T.checkpoint_exists(first)


def test_wrong_calls_are_refused(tmp_path):
    with pytest.raises(ValueError, match="No variables to save"):
        T.Saver()
    assert T.Saver(allow_empty=True).saver_def is None
    v = tf.get_variable("v", initializer=1.0)
    with pytest.raises(TypeError, match="not a Variable"):
        T.Saver([tf.constant(1.0)])
    with pytest.raises(ValueError, match="build cannot be deferred"):
        T.Saver([v], defer_build=True)
    saver = T.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match="path components"):
            saver.save(session, str(tmp_path / "m"), latest_filename="a/b")
        with pytest.raises(ValueError, match="collides"):
            saver.save(session, str(tmp_path / "checkpoint"))
        with pytest.raises(TypeError, match="must be a Session"):
            saver.save("session", str(tmp_path / "m"))
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            saver.restore(session, str(tmp_path / "none"))
        with pytest.raises(ValueError, match="when it is None"):
            saver.restore(session, None)
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError, match="Parent directory of .*file/m "
                                             "doesn't exist, can't save"):
            saver.save(session, str(tmp_path / "file" / "m"))
    with tf.Session() as session:
        for name in ("save", "restore"):
            with pytest.raises(RuntimeError, match=f"build.*{name}"):
                getattr(T.Saver(defer_build=True), name)(
                    session, str(tmp_path / "m"))


def test_two_runs_in_one_folder_are_found(tmp_path):
    tf.get_variable("v", initializer=1.0)
    saver = T.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        saver.save(session, str(tmp_path / "m"))
        other = subprocess.run(
            [sys.executable, "-c", f"""
import sluice.compat.v1 as tf
tf.get_variable("v", initializer=1.0)
saver = tf.train.Saver()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    saver.save(session, {str(tmp_path / "other")!r})
"""], capture_output=True, text=True, check=True)
    assert "Two programs save to one folder" in other.stderr
    assert str(tmp_path) in other.stderr


def test_a_meta_graph_brings_its_saver(tmp_path):
    def build():
        v = tf.get_variable("v", initializer=2.0)
        tf.multiply(v, 3.0, name="y")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return T.Saver().save(session, str(tmp_path / "m"))
    path = fresh(build)
    for scope in (None, "in"):
        def use(scope=scope):
            saver = T.import_meta_graph(path + ".meta", import_scope=scope)
            with tf.Session() as session:
                saver.restore(session, path)
                return session.run(f"{scope}/y:0" if scope else "y:0")
        assert fresh(use) == 6


def test_savers_of_a_collection_come_back():
    v = tf.get_variable("v", initializer=1.0)
    tf.get_variable("w", initializer=2.0)
    for saver in (T.Saver([v], name="one"), T.Saver(name="both")):
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    made = T.export_meta_graph()
    with tf.Graph().as_default():
        T.import_meta_graph(made)
        one, both = tf.get_collection(tf.GraphKeys.SAVERS)
        assert one.saver_def.restore_op_name == "one/restore_all"
        assert both.saver_def.restore_op_name == "both/restore_all"


def test_own_objects_are_saved(tmp_path):
    from sluice.training.saveables import SaveableObject, SaveSpec

    class Half(SaveableObject):
        """Saves twice a variable, and restores half of what was saved."""

        def __init__(self, variable):
            self._variable = variable
            super().__init__(variable, [SaveSpec(variable * 2.0, "", "twice")],
                             "twice")

        def restore(self, restored_tensors, restored_shapes):
            return tf.assign(self._variable, restored_tensors[0] / 2.0)

    v = tf.get_variable("v", initializer=3.0)
    saver = T.Saver([Half(v)])
    with tf.Session() as session:
        session.run(v.initializer)
        path = saver.save(session, str(tmp_path / "m"))
        session.run(v.assign(0.0))
        saver.restore(session, path)
        assert session.run(v) == 3
    assert T.load_variable(path, "twice") == 6


def test_readers_describe_and_read(tmp_path):
    path = saved(tmp_path / "m", {"a": np.zeros([2, 3], np.float32),
                                  "b": np.int64(4)})
    reader = T.load_checkpoint(tmp_path)
    assert reader.get_variable_to_shape_map() == {"a": [2, 3], "b": []}
    assert reader.get_variable_to_dtype_map() == {"a": tf.float32,
                                                  "b": tf.int64}
    assert reader.has_tensor("a") and not reader.has_tensor("c")
    assert b"a (DT_FLOAT) [2,3]\n" in reader.debug_string()
    with pytest.raises(tf.errors.NotFoundError,
                       match="Unsuccessful TensorSliceReader"):
        T.load_checkpoint(tmp_path / "none")
    assert T.load_variable(path, "b:0") == 4
    with pytest.raises(tf.errors.NotFoundError, match="aa"):
        reader.get_tensor("aa")
    with pytest.raises(tf.errors.NotFoundError):
        T.NewCheckpointReader(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="Couldn't find"):
        os.mkdir(tmp_path / "empty")
        T.load_checkpoint(tmp_path / "empty")


def test_a_flipped_byte_is_found(tmp_path):
    path = saved(tmp_path / "m", {"a": np.arange(100.0)})
    [data] = glob.glob(path + ".data*")
    with open(data, "r+b") as f:
        f.seek(40)
        byte = f.read(1)
        f.seek(40)
        f.write(bytes([byte[0] ^ 1]))
    with pytest.raises(tf.errors.DataLossError, match="a"):
        T.load_variable(path, "a")


def test_variables_start_from_a_checkpoint(tmp_path, use_resource):
    path = saved(tmp_path / "m", {"x/a": 1.0, "x/b": 2.0, "c": 3.0})
    with tf.variable_scope("y", use_resource=use_resource):
        a, b = (tf.get_variable(n, [], initializer=tf.zeros_initializer())
                for n in "ab")
    c = tf.get_variable("c", initializer=0.0, use_resource=use_resource)
    T.init_from_checkpoint(path, {"x/": "y/", "c": c})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([a, b, c]) == [1, 2, 3]
    with pytest.raises(ValueError, match=r"not found.*nearest: x/a"):
        T.init_from_checkpoint(path, {"x/aa": a})
    with pytest.raises(ValueError, match="Shape of variable"):
        T.init_from_checkpoint(path, {"c": tf.get_variable("d", [2])})


def test_new_checkpoints_are_iterated(tmp_path):
    seen = []
    first = saved(tmp_path / "m", {"a": 1.0}, 1)
    for path in T.checkpoints_iterator(str(tmp_path), timeout=0,
                                       timeout_fn=lambda: True):
        seen.append(path)
        if len(seen) == 1:
            second = saved(tmp_path / "m", {"a": 1.0}, 2)
    assert seen == [first, second]


def counting(folder, until, **options):
    """Counts in a monitored session; returns the steps at its start and end."""
    def build():
        step = T.get_or_create_global_step()
        add = tf.assign_add(step, 1)
        with T.MonitoredTrainingSession(
                checkpoint_dir=str(folder), hooks=[T.StopAtStepHook(
                    last_step=until)], **options) as session:
            start = session.run_step_fn(
                lambda step_context: step_context.session.run(step))
            while not session.should_stop():
                last = session.run(add)
        return start, last
    return fresh(build)


def test_a_monitored_session_goes_on_from_its_checkpoint(tmp_path):
    assert counting(tmp_path, 3) == (0, 3)
    tf.summary.FileWriterCache.clear()
    assert T.latest_checkpoint(tmp_path).endswith("model.ckpt-3")
    assert os.path.exists(tmp_path / "graph.pbtxt")
    assert counting(tmp_path, 7, save_checkpoint_steps=2) == (3, 7)
    tf.summary.FileWriterCache.clear()
    assert T.latest_checkpoint(tmp_path).endswith("model.ckpt-7")


def test_no_checkpoints_are_saved_unless_asked(tmp_path):
    assert counting(tmp_path, 3, save_checkpoint_secs=None,
                    save_checkpoint_steps=None) == (0, 3)
    tf.summary.FileWriterCache.clear()
    assert T.latest_checkpoint(tmp_path) is None


def test_listeners_are_told_and_stop(tmp_path):
    calls = []

    class Listener(T.CheckpointSaverListener):
        def begin(self):
            calls.append("begin")

        def before_save(self, session, step):
            calls.append(("before", int(step)))

        def after_save(self, session, step):
            calls.append(("after", int(step)))
            return step >= 2

        def end(self, session, step):
            calls.append(("end", int(step)))

    add = tf.assign_add(T.get_or_create_global_step(), 1)
    hook = T.CheckpointSaverHook(str(tmp_path), save_steps=1,
                                 scaffold=None, saver=T.Saver(),
                                 listeners=[Listener()])
    with T.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            session.run(add)
    assert calls == ["begin", ("before", 0), ("after", 0), ("before", 1),
                     ("after", 1), ("before", 2), ("after", 2), ("end", 2)]
    tf.summary.FileWriterCache.clear()


def test_a_killed_program_goes_on_where_it_was(tmp_path):
    program = f"""
import os
import sluice.compat.v1 as tf
step = tf.train.get_or_create_global_step()
w = tf.get_variable("w", initializer=1.0)
with tf.control_dependencies([tf.assign(w, w * 0.5 + 1.0)]):
    add = tf.assign_add(step, 1)
with tf.train.MonitoredTrainingSession(
        checkpoint_dir={str(tmp_path)!r}, save_checkpoint_steps=1,
        save_summaries_steps=None, save_summaries_secs=None,
        log_step_count_steps=None,
        hooks=[tf.train.StopAtStepHook(last_step=9)]) as session:
    while not session.should_stop():
        n, value = session.run([add, w])
        if n == int(os.environ["DIES_AT"]):
            os.kill(os.getpid(), 9)
print(n, repr(float(value)))
"""
    def run(dies_at):
        return subprocess.run([sys.executable, "-c", program], text=True,
                              env={**os.environ, "DIES_AT": str(dies_at)},
                              capture_output=True, check=False)
    for dies_at in (3, 5, 6):
        assert run(dies_at).returncode == -9
    finished = run(-1)
    assert finished.returncode == 0, finished.stderr
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]
    value = 1.0
    for _ in range(9):
        value = value * 0.5 + 1.0
    assert np.allclose(T.load_variable(str(tmp_path), "w"), value)


def test_the_old_format_is_written_and_read(tmp_path):
    for sharded in (False, True):
        path = saved(tmp_path / f"m{sharded}", {"a": 1.0, "b": 2.0},
                     write_version=tf.train.SaverDef.V1, sharded=sharded)
        assert T.checkpoint_exists(path)
        assert not glob.glob(path + ".index")

        def restored(path=path):
            a = tf.get_variable("a", initializer=0.0)
            with tf.Session() as session:
                T.Saver().restore(session, path)
                return session.run(a)
        assert fresh(restored) == 1


def test_other_savers_are_left_out_of_a_meta_graph():
    tf.get_variable("v", initializer=1.0)
    kept = T.Saver(name="kept")
    for saver in (kept, T.Saver(name="gone")):
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    made = kept.export_meta_graph(clear_extraneous_savers=True)
    names = [n.name for n in made.graph_def.node]
    assert any(n.startswith("kept/") for n in names)
    assert not any(n.startswith("gone/") for n in names)
    assert len(made.collection_def["savers"].bytes_list.value) == 1


def test_the_graph_of_an_old_checkpoint_is_deleted_by_its_suffix(tmp_path):
    tf.get_variable("v", initializer=1.0)
    saver = T.Saver(max_to_keep=1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for n in range(2):
            saver.save(session, str(tmp_path / "m"), n, meta_graph_suffix="gr")
    assert os.path.exists(tmp_path / "m-1.gr")
    assert not os.path.exists(tmp_path / "m-0.gr")


def test_paths_may_be_uris(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    uri = f"file://{tmp_path}"
    assert saved(f"{uri}/m", {"v": 3.0}) == str(tmp_path / "m")
    assert not os.path.exists("file:")
    assert T.latest_checkpoint(uri) == str(tmp_path / "m")
    assert T.load_variable(f"{uri}/m", "v") == T.load_variable(uri, "v") == 3
    v = tf.get_variable("v", initializer=0.0)
    with tf.Session() as session:
        T.Saver().restore(session, f"{uri}/m")
        assert session.run(v) == 3


@pytest.mark.parametrize("host", ["", "localhost"])
def test_every_file_may_be_a_uri(tmp_path, monkeypatch, host):
    monkeypatch.chdir(tmp_path)
    uri = f"file://{host}{tmp_path}"
    path = saved(f"{uri}/m", {"v": 3.0}, 1)
    assert path == str(tmp_path / "m-1")
    assert T.latest_checkpoint(uri) == path
    assert T.checkpoint_exists(f"{uri}/m-1")
    assert len(T.get_checkpoint_mtimes([f"{uri}/m-1"])) == 1
    T.update_checkpoint_state(uri, f"{uri}/m-1")
    assert T.latest_checkpoint(uri) == path
    assert T.write_graph(tf.Graph(), f"{uri}/new", "graph.pbtxt") == (
        f"{uri}/new/graph.pbtxt")
    assert os.path.exists(tmp_path / "new" / "graph.pbtxt")
    with tf.Graph().as_default(), tf.Session() as session:
        saver = T.import_meta_graph(f"{uri}/m-1.meta")
        saver.restore(session, f"{uri}/m-1")
        assert session.run("v:0") == 3
        saver.export_meta_graph(f"{uri}/again.meta")
    assert os.path.exists(tmp_path / "again.meta")
    T.remove_checkpoint(f"{uri}/m-1")
    assert not T.checkpoint_exists(path)
    # Nothing lies where the URI would be a relative path.
    assert not {"file:", "localhost"} & set(os.listdir())


def test_the_hooks_of_a_run_write_to_uris(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    uri = f"file://localhost{tmp_path}/run"
    step = T.get_or_create_global_step().assign_add(1)
    with T.MonitoredTrainingSession(
            checkpoint_dir=uri,
            hooks=[T.ProfilerHook(save_steps=1, output_dir=uri)]) as session:
        for _ in range(3):
            session.run(step)
    tf.summary.FileWriterCache.clear()
    names = os.listdir(tmp_path / "run")
    assert any(n.startswith("timeline-") for n in names)
    assert {"checkpoint", "graph.pbtxt", "model.ckpt-3.index"} <= set(names)
    assert os.listdir() == ["run"]


def test_folders_may_have_names_that_are_patterns(tmp_path):
    path = saved(tmp_path / "run[1]" / "m", {"a": 1.0})
    assert T.latest_checkpoint(tmp_path / "run[1]") == path
    assert counting(tmp_path / "run[2]", 1) == (0, 1)
    assert counting(tmp_path / "run[2]", 2) == (1, 2)
    tf.summary.FileWriterCache.clear()
    T.remove_checkpoint(path)
    assert not T.checkpoint_exists(path)


def test_a_checkpoint_is_evaluated(tmp_path):
    path = saved(tmp_path / "m", {"a": 3.0})
    a = tf.get_variable("a", initializer=0.0)
    a2 = a * 2.0
    scaffold = T.Scaffold(saver=T.Saver([a]))
    with T.MonitoredSession(T.ChiefSessionCreator(
            scaffold, checkpoint_filename_with_path=path)) as session:
        assert session.run(a2) == 6


def test_checkpoints_of_objects_are_restored_by_full_names(
        monkeypatch):
    # Written by tf.train.Checkpoint (tests/checkpoints/record.py).
    objects = os.path.join(os.path.dirname(__file__), "..", "..", "tests",
                           "checkpoints", "objects")
    warned = []
    monkeypatch.setattr(
        logging.getLogger("sluice"), "warning",
        lambda text, *args: warned.append(text % args))
    kernel = tf.get_variable("dense/kernel", [2, 3], use_resource=False)
    step = tf.train.get_or_create_global_step()
    with tf.Session() as session:
        T.Saver([kernel, step]).restore(session, objects)
        assert session.run(kernel).tolist() == [[1, 2, 3], [4, 5, 6]]
        assert session.run(step) == 7
        assert "restoring 2 of 2 variables by their full names" in warned[0]
        twin = tf.get_variable("twin", [])  # The name of two of its variables.
        with pytest.raises(tf.errors.NotFoundError, match="twin"):
            T.Saver([twin]).restore(session, objects)
    reader = T.NewCheckpointReader(objects)
    assert reader.has_tensor("model/kernel/.ATTRIBUTES/VARIABLE_VALUE")


def test_file_urls_are_paths(tmp_path):
    path = saved(f"file://{tmp_path}/m", {"a": 3.0}, 1)
    assert T.load_variable(f"file://{tmp_path}/m-1", "a") == 3
    assert os.path.exists(tmp_path / "m-1.index"), path
    name = f"file://{tmp_path}/text"
    with tf.Session() as session:
        session.run(tf.io.write_file(name, "words"))
        assert session.run(tf.io.read_file(name)) == b"words"
        assert session.run(tf.io.matching_files(
            f"file://{tmp_path}/te*")).tolist() == [name.encode()]


def test_variables_that_start_from_a_checkpoint_know_their_initial_value(
        tmp_path, use_resource):
    path = saved(tmp_path / "m", {"a": 3.0})
    v = tf.get_variable("v", initializer=0.0, use_resource=use_resource)
    T.init_from_checkpoint(path, {"a": v})
    doubled = v.initialized_value() * 2.0
    with tf.Session() as session:
        assert session.run(doubled) == 6
    with pytest.raises(tf.errors.NotFoundError, match="none is not a valid"):
        T.init_from_checkpoint(str(tmp_path / "none"), {"a": v})


def test_matrices_are_loaded_with_new_vocabularies(tmp_path):
    frame = tf.contrib.framework
    path = saved(tmp_path / "m", {
        "w": np.arange(6, dtype=np.float32).reshape(3, 2)})
    for name, words in (("old", "a b c"), ("new", "c x a"), ("old_class", "p q"),
                        ("new_class", "q r")):
        (tmp_path / name).write_text("\n".join(words.split()) + "\n")
    words = dict(old_vocab_file=str(tmp_path / "old"),
                 new_vocab_file=str(tmp_path / "new"))
    ones = tf.ones_initializer()
    table = tf.get_variable(
        "table", [4, 2], partitioner=tf.fixed_size_partitioner(2),
        initializer=frame.load_embedding_initializer(
            path, "w", 3, 2, num_oov_buckets=1, initializer=ones, **words))
    both = frame.load_and_remap_matrix(
        path, "w", 0, 3, 2, ones, old_row_vocab_file=str(tmp_path / "old"),
        new_row_vocab_file=str(tmp_path / "new"),
        old_col_vocab_file=str(tmp_path / "old_class"),
        new_col_vocab_file=str(tmp_path / "new_class"), num_col_oov_buckets=1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(tf.convert_to_tensor(table)).tolist() == [
            [4, 5], [1, 1], [0, 1], [1, 1]]
        assert session.run(both).tolist() == [[5, 1, 1], [1, 1, 1], [1, 1, 1]]
    with pytest.raises(ValueError, match="both be specified"):
        frame.load_and_remap_matrix(path, "w", 0, 3, 2, ones,
                                    new_row_vocab_file="new")
    with pytest.raises(ValueError, match="Must provide either"):
        frame.load_and_remap_matrix(path, "w", 0, 3, 2, ones)
    with pytest.raises(ValueError, match="expected a variable of shape"):
        tf.get_variable("other", [5, 2],
                        initializer=frame.load_embedding_initializer(
                            path, "w", 3, 2, **words))


def _tables():
    return (tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1,
                                               name="words"),
            tf.contrib.lookup.MutableDenseHashTable(
                tf.int64, tf.float32, [0.0, 0.0], empty_key=-1, deleted_key=-2,
                name="vectors"))


def test_tables_are_saved_without_variables(tmp_path):
    path = str(tmp_path / "m")
    words, vectors = _tables()
    saver = T.Saver()
    with tf.Session() as session:
        session.run([words.insert(["a", "b"], [1, 2]),
                     vectors.insert([7], [[0.5, 1.5]])])
        path = saver.save(session, path)
    reader = tf.train.NewCheckpointReader(path)
    assert set(reader.get_variable_to_shape_map()) >= {
        "words-keys", "words-values", "vectors-keys", "vectors-values"}
    with tf.Graph().as_default(), tf.Session() as session:
        words, vectors = _tables()
        session.run(words.insert(["c"], [3]))
        T.Saver().restore(session, path)
        assert session.run(words.lookup(tf.constant(["a", "b", "c"]))
                           ).tolist() == [1, 2, -1]
        assert session.run(vectors.lookup(tf.constant([7, 8], tf.int64))
                           ).tolist() == [[0.5, 1.5], [0, 0]]


def test_tables_are_given_as_variables(tmp_path):
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1,
                                               name="t", checkpoint=False)
    with pytest.raises(ValueError, match="No variables to save"):
        T.Saver()
    v = tf.get_variable("v", initializer=1.0)
    listed, named = T.Saver([v, table]), T.Saver({"other": table})
    empty = table.remove(["a"])
    with tf.Session() as session:
        session.run([v.initializer, table.insert(["a"], [1])])
        paths = [listed.save(session, str(tmp_path / "l")),
                 named.save(session, str(tmp_path / "n"))]
        for saver, path, keys in zip((listed, named), paths,
                                     ("t-keys", "other_table-keys")):
            assert tf.train.NewCheckpointReader(path).has_tensor(keys)
            session.run(empty)
            saver.restore(session, path)
            assert session.run(table.lookup(tf.constant("a"))) == 1


def test_tables_of_one_name_are_all_saved(tmp_path):
    tables = [tf.contrib.lookup.MutableHashTable(tf.int64, tf.int64, -1)
              for _ in range(2)]
    with tf.Session() as session:
        session.run([t.insert([1], [i]) for i, t in enumerate(tables)])
        path = T.Saver().save(session, str(tmp_path / "m"))
    names = tf.train.NewCheckpointReader(path).get_variable_to_shape_map()
    assert {"MutableHashTable-keys", "MutableHashTable_1-keys"} <= set(names)
