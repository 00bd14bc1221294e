"""State-space (Markov) form of kernels of time: f(t) = h(t)ᵀz(t), and over a step z' = A z + noise of covariance Q.

Every form has a stationary state covariance P, so Q = P − A P Aᵀ.  Q is written without cancellation at small steps.
With a_j = e⁻ˣxʲ/j! and γ_k = 1 − a_0 − … − a_{k−1} (`special_functions`), x = 2r:

    Matérn-½    r = Δ/ℓ       A = e⁻ʳ,                                  P = v,   Q = v γ_1
    Matérn-3/2  r = √3 Δ/ℓ    A = e⁻ʳ [1+r, r; −r, 1−r],                P = v I
                              Q = v [γ_3, a_2; ·, γ_3 + 2a_1]           state (f, f'/λ), λ = √3/ℓ
    Matérn-5/2  r = √5 Δ/ℓ    A = e⁻ʳ (I + r N + ½ r² N²),  N = [1, 1, 0; 0, 1, 1; −1, −3, −2],  N³ = 0
                              P = v [1, 0, −⅓; 0, ⅓, 0; −⅓, 0, 1]       state (f, f'/λ, f''/λ²), λ = √5/ℓ
                              Q = (16/3) v ∫₀ʳ e⁻²ᵘ β βᵀ du,  β = (½u², u − ½u², 1 − 2u + ½u²)
    cosine      A = a rotation by 2πΔ/p,                                P = v I, Q = 0
    constant    A = 1, Q = 0, P = v, h = 1;    linear  as constant, with h = t
    periodic    Σ_j v q_j cos(2πjΔ/p), j ≤ J:  one constant and J cosines, q_0 = e^{−1/ℓ²} I_0(1/ℓ²), q_j = 2 e^{−1/ℓ²}
                I_j(1/ℓ²); the error of the kernel is at most v (1 − Σ_{j≤J} q_j) = v · `truncation_error`
    sum         independent states side by side
    product     A = A_1 ⊗ A_2, P = P_1 ⊗ P_2, h = h_1 ⊗ h_2,   Q = Q_1 ⊗ P_2 + (P_1 − Q_1) ⊗ Q_2
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from sitewise.arrays.engine import Array
from sitewise.kernels.base import Kernel, Product, Scaled, Sum
from sitewise.kernels.cosine import Cosine
from sitewise.kernels.linear import Constant, Linear
from sitewise.kernels.stationary import Matern12, Matern32, Matern52, Periodic
from sitewise.kernels.terms import terms
from sitewise.numerics.quadrature.special_functions import gamma_rest, gamma_term, harmonic_shares, share_beyond

_MAX_STEP = 1000.0  # largest r, in the units above; longer steps are clipped, as nothing of the state remains


class Form(NamedTuple):
    """The state-space form of a kernel over one step: state covariance P, transition A, noise covariance Q, and h."""

    P: Array
    A: Array
    Q: Array
    h: Array


def form(kernel: Kernel, harmonics: int, step: Array, time: Array) -> Form:
    """Return the form of a kernel over a step that ends at `time`; `harmonics` is J of the periodic kernel."""
    return _FORMS[type(kernel)](kernel, harmonics, step, time)


def check_form(kernel: Kernel) -> None:
    """Raise ValueError if the kernel, or a part of it, has no state-space form."""
    if type(kernel) not in _FORMS:
        raise ValueError(
            f"{type(kernel).__name__} is not a Markov process of a few states; use Matern12, Matern32, Matern52, "
            "Periodic, Cosine, Constant, Linear, their sums and products, or Model.full."
        )
    for part in _parts(kernel):
        check_form(part)


def states_of(kernel: Kernel, harmonics: int, chosen: tuple[int, ...]) -> np.ndarray:
    """Return a vector over all states: 1 for the states of the chosen `kernels.terms`, and 0 elsewhere.

    The states of the terms lie side by side, in the order of the terms.
    """
    zero = jax.ShapeDtypeStruct((), np.float64)
    sizes = [
        len(jax.eval_shape(lambda step, time, one=term.kernel: form(one, harmonics, step, time).h, zero, zero))
        for term in terms(kernel)
    ]
    return np.concatenate([np.full(size, float(i in chosen)) for i, size in enumerate(sizes)])


def truncation_error(kernel: Kernel, harmonics: int) -> float:
    """Return the largest share of a periodic part's variance that its truncated series omits."""
    own = share_beyond(float(np.ravel(kernel.lengthscale)[0]) ** -2.0, harmonics) if type(kernel) is Periodic else 0.0
    return max([own, *(truncation_error(part, harmonics) for part in _parts(kernel))])


def shortest(kernel: Kernel, harmonics: int, error: float, name: str) -> dict[str, float]:
    """Return the lengthscales at which `truncation_error` reaches `error`, by the parameter names of periodic parts."""
    if type(kernel) is Periodic:
        return {f"{name}.lengthscale": _shortest_lengthscale(harmonics, error)}
    places = (f"{name}.base",) if isinstance(kernel, Scaled) else (f"{name}.parts.{i}" for i in itertools.count())
    found: dict[str, float] = {}
    for place, part in zip(places, _parts(kernel), strict=False):
        found |= shortest(part, harmonics, error, place)
    return found


@functools.cache
def _shortest_lengthscale(harmonics: int, error: float) -> float:
    """Return the lengthscale of a periodic kernel at which the truncation error, growing with 1/ℓ², reaches `error`."""
    return float(optimize.brentq(lambda x: share_beyond(x, harmonics) - error, 0.0, 1e4) ** -0.5)


def _parts(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return the parts of a sum, a product or a scaled kernel."""
    if isinstance(kernel, Sum | Product):
        return kernel.parts
    return (kernel.base,) if isinstance(kernel, Scaled) else ()


def _number(value: Any) -> Array:
    """Return a parameter of a kernel of one column as a scalar."""
    return jnp.reshape(value, ())


def _scaled_step(kernel: Any, step: Array, root: float) -> Array:
    """Return r = root · Δ/ℓ, clipped."""
    return jnp.minimum(root * step / _number(kernel.lengthscale), _MAX_STEP)


def _first(size: int) -> Array:
    """Return the first unit vector."""
    return jnp.eye(size)[0]


def _symmetric(size: int, *upper: Array) -> Array:
    """Return the symmetric matrix with these entries on and above the diagonal, row by row."""
    numbers = np.zeros((size, size), int)
    numbers[np.triu_indices(size)] = range(len(upper))
    return jnp.stack(upper)[np.maximum(numbers, numbers.T)]


def _matern12(kernel: Matern12, _: int, step: Array, time: Array) -> Form:
    v, r = _number(kernel.variance), _scaled_step(kernel, step, 1.0)
    return Form(v[None, None], jnp.exp(-r)[None, None], v * gamma_rest(1, 2 * r)[None, None], _first(1))


def _matern32(kernel: Matern32, _: int, step: Array, time: Array) -> Form:
    v, r = _number(kernel.variance), _scaled_step(kernel, step, np.sqrt(3.0))
    A = jnp.exp(-r) * jnp.stack([1 + r, r, -r, 1 - r]).reshape(2, 2)
    rest = gamma_rest(3, 2 * r)
    Q = _symmetric(2, rest, gamma_term(2, 2 * r), rest + 2 * gamma_term(1, 2 * r))
    return Form(v * jnp.eye(2), A, v * Q, _first(2))


_N = np.array([[1.0, 1, 0], [0, 1, 1], [-1, -3, -2]])
_P52 = np.array([[1.0, 0, -1 / 3], [0, 1 / 3, 0], [-1 / 3, 0, 1]])


def _matern52(kernel: Matern52, _: int, step: Array, time: Array) -> Form:
    """Use ∫₀ʳ uᵐ e⁻²ᵘ du = m!/2ᵐ⁺¹ γ_{m+1}, and γ_k = γ_5 + a_k + … + a_4 for k < 5."""
    v, r = _number(kernel.variance), _scaled_step(kernel, step, np.sqrt(5.0))
    A = jnp.exp(-r) * (jnp.eye(3) + r * _N + 0.5 * r**2 * (_N @ _N))
    rest, (a1, a2, a3, a4) = gamma_rest(5, 2 * r), (gamma_term(j, 2 * r) for j in range(1, 5))
    Q = _symmetric(
        3,
        rest, a4, (2 * a3 - 4 * a4 - rest) / 3,
        (rest + 4 * a3 - 2 * a4) / 3, 4 / 3 * a2 - 2 * a3 + a4,
        rest + 8 / 3 * (a1 - a2) + 4 * a3,
    )  # fmt: skip
    return Form(v * _P52, A, v * Q, _first(3))


def _oscillation(variance: Array, turns: Array) -> Form:
    """Return an undamped oscillation of this variance that makes `turns` turns in a step."""
    u = 2 * np.pi * (turns - jnp.round(turns))
    A = jnp.stack([jnp.cos(u), jnp.sin(u), -jnp.sin(u), jnp.cos(u)]).reshape(2, 2)
    return Form(variance * jnp.eye(2), A, jnp.zeros((2, 2)), _first(2))


def _cosine(kernel: Cosine, _: int, step: Array, time: Array) -> Form:
    return _oscillation(_number(kernel.variance), step / _number(kernel.period))


def _unchanging(variance: Array, h: Array) -> Form:
    """Return a constant state of this variance, observed by h."""
    return Form(variance[None, None], jnp.ones((1, 1)), jnp.zeros((1, 1)), h[None])


def _constant(kernel: Constant, _: int, step: Array, time: Array) -> Form:
    return _unchanging(_number(kernel.variance), jnp.ones_like(time))


def _linear(kernel: Linear, _: int, step: Array, time: Array) -> Form:
    return _unchanging(_number(kernel.variance), time)


def _periodic(kernel: Periodic, harmonics: int, step: Array, time: Array) -> Form:
    shares = _number(kernel.variance) * harmonic_shares(_number(kernel.lengthscale) ** -2.0, harmonics)
    turns = step / _number(kernel.period)
    waves = (_oscillation(shares[j], j * turns) for j in range(1, harmonics + 1))
    return functools.reduce(_sum_of_two, waves, _unchanging(shares[0], jnp.ones_like(time)))


def _sum_of_two(one: Form, other: Form) -> Form:
    """Return the form of the sum of two independent processes."""
    P, A, Q = (jax.scipy.linalg.block_diag(a, b) for a, b in zip(one[:3], other[:3], strict=True))
    return Form(P, A, Q, jnp.concatenate([one.h, other.h]))


def _product_of_two(one: Form, other: Form) -> Form:
    """Return the form of the process whose covariance is the product of two covariances."""
    Q = jnp.kron(one.Q, other.P) + jnp.kron(one.P - one.Q, other.Q)
    return Form(jnp.kron(one.P, other.P), jnp.kron(one.A, other.A), Q, jnp.kron(one.h, other.h))


def _sum(kernel: Sum, *at: Any) -> Form:
    return functools.reduce(_sum_of_two, (form(part, *at) for part in kernel.parts))


def _product(kernel: Product, *at: Any) -> Form:
    return functools.reduce(_product_of_two, (form(part, *at) for part in kernel.parts))


def _scaled(kernel: Scaled, *at: Any) -> Form:
    P, A, Q, h = form(kernel.base, *at)
    v = _number(kernel.variance)
    return Form(v * P, A, v * Q, h)


# Looked up by the exact class: a subclass may have another covariance.
_FORMS: dict[type, Callable[..., Form]] = {
    Matern12: _matern12,
    Matern32: _matern32,
    Matern52: _matern52,
    Periodic: _periodic,
    Cosine: _cosine,
    Constant: _constant,
    Linear: _linear,
    Sum: _sum,
    Product: _product,
    Scaled: _scaled,
}
