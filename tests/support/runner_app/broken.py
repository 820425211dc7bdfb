"""A handler that does not load."""

raise RuntimeError("this module is broken on purpose")
