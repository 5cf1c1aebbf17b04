"""Experiments that lessons run: the measuring is here, the call and the picture are there.

One module an experiment, and one for what is tried on heads.
"""
