"""A worker process for tests: one delivery run against the Redis named on the command line."""

from __future__ import annotations

import sys

from tests.support.courier import office

if __name__ == "__main__":
    office(sys.argv[1]).deliver()
