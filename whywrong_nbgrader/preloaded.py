"""The last that the fork server loads: from here on a worker, its fork, shares what is there.

A collection in a worker would touch, and so copy, every page that holds an object.
"""

import gc

from . import work  # noqa: F401

gc.collect()
gc.freeze()
