"""Read a table file and encode its target and its other columns."""
