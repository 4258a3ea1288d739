import pytest

import sluice.compat.v1 as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    """Gives each test its own default graph."""
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(fresh_graph):
    """Returns a session of the test's graph."""
    with tf.Session(graph=fresh_graph) as session:
        yield session


@pytest.fixture
def run(session):
    """Returns a function that runs one step in the test's session."""
    return session.run
