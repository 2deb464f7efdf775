#!/usr/bin/env bash
# The tests of python-memcached, a Python client.
source "$(dirname "$0")/python.sh"

enter_source_of python-memcached
# Its source package lacks a file that the tests import.
touch tests/__init__.py
cat >tests/utils.py <<'PYTHON'
import contextlib
import io


@contextlib.contextmanager
def captured_stderr():
    with contextlib.redirect_stderr(io.StringIO()) as log:
        yield log
PYTHON
start_on_free_port
sed -i "s/11211/$port/" tests/*.py
play_pytest tests
