"""L4. The paper's figures.  Each module has `compute`, which gives arrays by name, and `draw`, which makes a picture of
them; both are used by `sitewise reproduce`."""
