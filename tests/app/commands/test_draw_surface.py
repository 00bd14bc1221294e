"""The axes of an evidence surface."""

import numpy as np

from sitewise.app.commands.draw_surface import _axis


def test_the_axis_reaches_beyond_the_optima_on_both_sides_alike():
    for optima in ([0.3, 2.0], [40.0], [1e-3, 1.0]):
        axis, logs = _axis(optima, 7), np.log(optima)
        below, above = logs.min() - axis[0], axis[-1] - logs.max()
        assert len(axis) == 7 and 1.5 <= below < 2.0 and 1.5 <= above < 2.0
