"""Comparisons of gradients that the tests of several priors share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sitewise import Data, Model
from sitewise.arrays.engine import traced
from sitewise.parameters import values, walk, with_values
from sitewise.testing.common import slopes_by_differences

Both = Callable[[Model, Data], tuple[Any, Any]]  # value and gradient


def equals_differences(both: Both, model: Model, data: Data, every: bool = False) -> None:
    """The gradient of every trained parameter, or of every parameter, is its finite difference."""
    found = values(both(model, data)[1])
    for parameter, value in walk(model):
        if every or parameter.train:
            want = slopes_by_differences(
                lambda v, name=parameter.name: both(with_values(model, {name: v}), data)[0], np.asarray(value), 1e-4
            )
            np.testing.assert_allclose(found[parameter.name], want, rtol=1e-5, atol=1e-6, err_msg=parameter.name)


def engines_agree(both: Both, model: Model, data: Data) -> None:
    """The host engine and the traced engine give the same value and gradient."""
    value, slopes = both(model, data)
    with traced():
        again, others = both(model, data)
    np.testing.assert_allclose(value, again, atol=1e-9)
    for name, slope in values(slopes).items():
        np.testing.assert_allclose(slope, values(others)[name], atol=1e-6, err_msg=name)
