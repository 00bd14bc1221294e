"""The paper's figures.

Each module of a figure has `compute`, which gives arrays by name, and `draw`, which makes a picture of them; `making`
does both for `sitewise reproduce`.
"""
