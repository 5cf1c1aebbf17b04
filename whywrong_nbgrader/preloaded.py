"""The last module that the fork server loads: workers, its forks, share everything before it.

A garbage collection in a worker would write to, and so copy, every page that holds an object.
"""

import gc

from . import work  # noqa: F401

gc.collect()
gc.freeze()
