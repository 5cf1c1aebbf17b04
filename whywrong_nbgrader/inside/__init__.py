"""Runs next to a submission in a sandbox, without any answers; its replies are not trusted."""
