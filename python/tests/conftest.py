import pytest

import sluice.compat.v1 as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    """Each test builds into a graph of its own."""
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(fresh_graph):
    """A session of the test's own."""
    with tf.Session(graph=fresh_graph) as session:
        yield session


@pytest.fixture
def run(session):
    """Runs one step in a session of the test's own."""
    return session.run
