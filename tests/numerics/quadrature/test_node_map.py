"""The map from t to f: its derivative, its inverse and its spacing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise.numerics.quadrature.node_map import NodeMaps

ONE = (jnp.array([2.0]), jnp.array([0.01]))
TWO = (jnp.array([[2.0], [-40.0]]), jnp.array([[0.01], [0.5]]))


@pytest.mark.parametrize(("centre", "width"), [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("beta", [0.3, 0.7])
def test_slope_and_inverse(centre, width, beta):
    place = NodeMaps.of(centre, width, jnp.array([300.0]), beta)
    t = jnp.linspace(-20, 20, 81)[:, None]
    f, slope = place(t)
    derivative = jax.vmap(jax.grad(lambda t: place(t)[0][0]))(t[:, 0])
    np.testing.assert_allclose(slope[:, 0], derivative, rtol=1e-10)
    assert np.all(np.diff(f[:, 0]) > 0)
    # The inverse may lie too far out, never too far in, and not by much.
    outside = f - place(t)[0][np.argmin(np.abs(t[:, 0]))]
    back = place.inverse(f)
    far = np.abs(outside[:, 0]) > 1000
    assert np.all((np.sign(outside) * (back - t))[far] >= -1e-9)
    assert np.all(np.abs(back - t)[far] < 0.05)


def test_spacing_is_the_width_at_each_landmark_and_the_scale_far_away():
    place = NodeMaps.of(*TWO, jnp.array([300.0]), 0.3)
    for c, w in ((2.0, 0.01), (-40.0, 0.5)):
        spacing = float(place(place.inverse(jnp.array([c])))[1][0])
        assert 0.2 * w < spacing < 1.5 * w
    assert float(place(place.inverse(jnp.array([1e5])))[1][0]) == pytest.approx(300, rel=0.02)


def test_a_landmark_as_wide_as_the_scale_changes_nothing():
    place = NodeMaps.of(jnp.array([0.0]), jnp.array([1e9]), jnp.array([2.0]), 0.7)
    slope = place(jnp.linspace(-10, 10, 21)[:, None])[1]
    assert float(jnp.min(slope)) > 1.0
    assert float(jnp.max(slope)) <= 2.0 + 1e-12
