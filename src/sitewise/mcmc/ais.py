"""Annealed importance sampling (Neal 2001): log Z of a GP model with a standard error, from below and above.

Between the Gaussian q = prior × sites (τ = 0) and the posterior (τ = 1) lie the densities q(f) exp(τ·r(f)), which is
prior · Π t_i^{1−τ} p_i^τ.  A chain drawn from q and moved once at each of T temperatures has the weight

    log w = Σ_t (τ_t − τ_{t−1}) r(f_{t−1}),     E[w] = Z / Z_q

log Z_q + log mean w estimates log Z; on average it is too low by about half its variance.  A chain that starts at the
posterior and runs backwards gives 1/w, and log Z_q − log mean 1/w is too high on average.  The closer q is to the
posterior, the smaller T may be: with EP's sites, few temperatures suffice for most problems.  With zero sites and
τ = (t/T)⁴ this is the estimator of Kuss & Rasmussen (2005) that the paper used.

Both directions together give Bennett's (1976) estimate: the solution ℓ = log Z − log Z_q of

    Σ_forward σ(log w − ℓ) = Σ_backward σ(log 1/w + ℓ),     σ(x) = 1/(1 + e^{−x}).

Its terms are bounded.  In contrast, the mean of w may depend on one large weight that is rarely drawn, and the standard
error is too small without this draw.  All standard errors are widened, such that three standard errors cover 99.7 %
also with few (effective) chains.

The default temperatures are spaced evenly in ∫ sd_τ(r) dτ, measured by a short pilot run.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike, DTypeLike
from scipy import special

from sitewise.mcmc import elliptical, independence_move
from sitewise.mcmc.reference import Target, draw

KNOTS = 65  # points between which temperatures are interpolated linearly
_SCHEDULE_POWER = 4.0  # τ = (t/T)⁴ without a pilot run
_THREE_SIGMA_LEVEL = 0.5 + 0.5 * 0.9973  # of the distribution function
_INVERSE_DF_GRID = np.linspace(0.0, 2.0, 401)  # 1/df at which the widening is tabulated
_BISECTIONS = 60


@dataclasses.dataclass(frozen=True)
class Annealing:
    """Settings of annealed importance sampling (AIS), except its number of steps.

    Parameters
    ----------
    path : str, default="ep"
        "ep", "vi" or "laplace": anneal from this approximation; "prior": from the prior.
    chains : int, default=16
        The number of chains.
    pilot : int, default=64
        Steps of the pilot run that sets the temperatures; 0 means τ = (t/T)⁴.
    combine : str, default="mean"
        "mean": log of the mean weight; "geometric": mean of the log weights (the paper's three runs).
    rowwise : bool, default=True
        Whether to also move each row independently at each temperature (`independence_move`).
    reverse : bool, default=True
        Whether to also anneal backwards from the posterior.
    max_shrinks : int, default=12
        Shrinks of the bracket after which a chain stays at its point; limits the waiting of all chains of a batch
        for the slowest chain.
    """

    path: str = "ep"
    chains: int = 16
    pilot: int = 64
    combine: str = "mean"
    rowwise: bool = True
    reverse: bool = True
    max_shrinks: int = 12

    def __post_init__(self) -> None:
        if self.path not in ("ep", "vi", "laplace", "prior"):
            raise ValueError(f"path must be ep, vi, laplace or prior, got {self.path!r}.")
        if self.combine not in ("mean", "geometric"):
            raise ValueError(f"combine must be mean or geometric, got {self.combine!r}.")
        if self.chains < 2:
            raise ValueError("chains must be at least 2, because the standard error is computed from several chains.")


PAPER = Annealing(path="prior", chains=3, pilot=0, combine="geometric", rowwise=False, reverse=False)


class Estimate(NamedTuple):
    """log Z ± se from both directions together (forward only without a reverse run), and from each direction alone.

    On average `lower` is too low and `upper` is too high.  `ess` and `upper_ess` are the effective numbers of forward
    and of backward chains.
    """

    log_z: jax.Array
    se: jax.Array
    ess: jax.Array
    lower: jax.Array
    lower_se: jax.Array
    upper: jax.Array
    upper_se: jax.Array
    upper_ess: jax.Array
    shrinks: jax.Array
    stuck: jax.Array


def widening(ess: jax.Array) -> jax.Array:
    """Return the factor with which three standard errors from `ess` values cover as much as 3σ of a normal law.

    This is the ratio of quantiles of t with ess − 1 degrees of freedom and of the normal law.
    """
    df = 1 / np.maximum(_INVERSE_DF_GRID, 1e-9)
    table = np.log(special.stdtrit(df, _THREE_SIGMA_LEVEL) / special.ndtri(_THREE_SIGMA_LEVEL))
    return jnp.exp(jnp.interp(1 / jnp.maximum(ess - 1, 0.5), _INVERSE_DF_GRID, table))


def effective(log_w: jax.Array) -> jax.Array:
    """Return the effective number of weights, (Σw)²/Σw²."""
    return jnp.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w))


def bennett(forward: jax.Array, backward: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return Bennett's estimate ℓ and its standard error, from equally many log weights of each direction."""
    chains = forward.shape[0]

    def halve(_: jax.Array, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        too_low = jnp.sum(jax.nn.sigmoid(forward - middle)) > jnp.sum(jax.nn.sigmoid(backward + middle))
        return jnp.where(too_low, middle, low), jnp.where(too_low, high, middle)

    both = jnp.concatenate([forward, -backward])
    low, high = lax.fori_loop(0, _BISECTIONS, halve, (jnp.min(both), jnp.max(both)))
    value = 0.5 * (low + high)
    variance, ess = jnp.zeros((), forward.dtype), jnp.asarray(float(chains), forward.dtype)
    for log_odds in (forward - value, backward + value):
        terms = jax.nn.sigmoid(log_odds)
        variance += jnp.var(terms, ddof=1) / (chains * jnp.mean(terms) ** 2)
        ess = jnp.minimum(ess, effective(jax.nn.log_sigmoid(log_odds)))
    return value, widening(ess) * jnp.sqrt(variance)


def summary(log_w: jax.Array, combine: str) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log mean w, its standard error and (Σw)²/Σw².

    The standard error is a widened jackknife estimate.  "geometric": mean log w and its usual standard error.
    """
    chains = log_w.shape[0]
    ess = effective(log_w)
    if combine == "geometric":
        return jnp.mean(log_w), jnp.std(log_w, ddof=1) / jnp.sqrt(chains), ess
    total = logsumexp(log_w)
    # log Σ_{j≠i} w_j; Σ − w_i would cancel if one weight is nearly the whole sum.
    others = jnp.where(jnp.eye(chains, dtype=bool), -jnp.inf, log_w[None, :])
    left_out = logsumexp(others, axis=1) - jnp.log(chains - 1)
    se = jnp.sqrt((chains - 1) / chains * jnp.sum((left_out - jnp.mean(left_out)) ** 2))
    return total - jnp.log(chains), widening(ess) * se, ess


class Tally(NamedTuple):
    """Counts over all chains and steps: bracket shrinks, and moves that ended at `max_shrinks`."""

    shrinks: jax.Array
    stuck: jax.Array


def move(
    settings: Annealing, key: jax.Array, target: Target, state: elliptical.State, tau: float | jax.Array, tally: Tally
) -> tuple[elliptical.State, Tally]:
    """Make one transition of every chain at temperature τ."""
    key, key_rows = jax.random.split(key)
    ref = target.ref
    state, info = elliptical.step(
        key, state, target.residual, ref.mean, ref.root, tau=tau, max_shrinks=settings.max_shrinks
    )
    if settings.rowwise:
        state = independence_move.step(key_rows, state, target, tau)
    stuck = jnp.sum(info.shrinks > settings.max_shrinks)
    return state, Tally(tally.shrinks + jnp.sum(info.shrinks), tally.stuck + stuck)


def _power_knots(dtype: DTypeLike) -> jax.Array:
    return jnp.linspace(0.0, 1.0, KNOTS, dtype=dtype) ** _SCHEDULE_POWER


def _tau(knots: jax.Array, t: jax.Array, steps: ArrayLike) -> jax.Array:
    at = jnp.asarray(t, knots.dtype) / steps * (KNOTS - 1)
    below = jnp.clip(jnp.floor(at).astype(jnp.int32), 0, KNOTS - 2)
    share = at - below
    return (1 - share) * knots[below] + share * knots[below + 1]


def pilot_knots(settings: Annealing, key: jax.Array, target: Target, steps: int | jax.Array) -> jax.Array:
    """Return temperatures that are evenly spaced in ∫ sd_τ(r) dτ, from a pilot run along τ = (t/T)⁴.

    A tenth of the spacing comes from the schedule of the pilot run, because the measured sd is noisy.
    """
    dtype = target.ref.mean.dtype
    base = _power_knots(dtype)
    key_start, key_run = jax.random.split(key)
    state = elliptical.init(draw(key_start, target.ref, settings.chains), target.residual)

    def body(
        t: jax.Array, carry: tuple[elliptical.State, jax.Array, jax.Array]
    ) -> tuple[elliptical.State, jax.Array, jax.Array]:
        state, spread, count = carry
        state, _ = move(settings, jax.random.fold_in(key_run, t), target, state, _tau(base, t, steps), _no_tally())
        cell = jnp.clip(((t - 1) * (KNOTS - 1)) // steps, 0, KNOTS - 2)
        return state, spread.at[cell].add(jnp.std(state.residual)), count.at[cell].add(1.0)

    zeros = jnp.zeros(KNOTS - 1, dtype)
    _, spread, count = lax.fori_loop(1, steps + 1, body, (state, zeros, zeros))
    # Average the sd over neighbouring cells, as some cells may contain no step.
    near = jnp.abs(jnp.arange(KNOTS - 1)[:, None] - jnp.arange(KNOTS - 1)[None, :]) <= 3
    sd = (near @ spread) / jnp.maximum(near @ count, 1.0)
    length = jnp.concatenate([jnp.zeros(1, dtype), jnp.cumsum(sd * jnp.diff(base))])
    even = jnp.linspace(0.0, 1.0, KNOTS, dtype=dtype)
    progress = 0.9 * length / jnp.maximum(length[-1], 1e-300) + 0.1 * even
    return jnp.interp(even * progress[-1], progress, base).at[-1].set(1.0)


def _no_tally() -> Tally:
    return Tally(jnp.zeros((), jnp.int64), jnp.zeros((), jnp.int64))


Run = tuple[elliptical.State, jax.Array, Tally]  # chains, their log weights, and the counts


def forward(settings: Annealing, key: jax.Array, target: Target, knots: jax.Array, steps: int | jax.Array) -> Run:
    """Anneal from q to the posterior."""
    key_start, key_run = jax.random.split(key)
    state = elliptical.init(draw(key_start, target.ref, settings.chains), target.residual)

    def body(t: jax.Array, carry: Run) -> Run:
        state, log_w, tally = carry
        tau = _tau(knots, t, steps)
        log_w = log_w + (tau - _tau(knots, t - 1, steps)) * state.residual
        state, tally = move(settings, jax.random.fold_in(key_run, t), target, state, tau, tally)
        return state, log_w, tally

    zeros = jnp.zeros(settings.chains, target.ref.mean.dtype)
    return lax.fori_loop(1, steps + 1, body, (state, zeros, _no_tally()))


def backward(
    settings: Annealing,
    key: jax.Array,
    target: Target,
    state: elliptical.State,
    knots: jax.Array,
    steps: int | jax.Array,
) -> jax.Array:
    """Return the log weights of the reverse run, which starts at posterior draws."""

    def body(i: jax.Array, carry: Run) -> Run:
        state, log_w, tally = carry
        t = steps - i
        tau = _tau(knots, t - 1, steps)
        log_w = log_w + (tau - _tau(knots, t, steps)) * state.residual
        state, tally = move(settings, jax.random.fold_in(key, i), target, state, tau, tally)
        return state, log_w, tally

    zeros = jnp.zeros(settings.chains, target.ref.mean.dtype)
    return lax.fori_loop(0, steps, body, (state, zeros, _no_tally()))[1]


def resample(key: jax.Array, state: elliptical.State, log_w: jax.Array) -> elliptical.State:
    """Resample chains in proportion to their weights, which gives draws from the posterior."""
    pick = jax.random.categorical(key, log_w, shape=log_w.shape)
    return elliptical.State(state.position[:, pick], state.residual[pick])


def settle(
    settings: Annealing, key: jax.Array, target: Target, state: elliptical.State, steps: int | jax.Array
) -> elliptical.State:
    """Make `steps` transitions at the posterior, to forget the state at the end of annealing."""

    def body(t: jax.Array, state: elliptical.State) -> elliptical.State:
        return move(settings, jax.random.fold_in(key, t), target, state, 1.0, _no_tally())[0]

    return lax.fori_loop(0, steps, body, state)


def anneal(
    settings: Annealing, key: jax.Array, target: Target, steps: int | jax.Array, pilot: int | jax.Array
) -> tuple[Estimate, elliptical.State]:
    """Return the estimate and the chains at the posterior; `steps` and `pilot` may be traced, for one program."""
    key_pilot, key_forward, key_resample, key_settle, key_back = jax.random.split(key, 5)
    ref = target.ref
    knots = _power_knots(ref.mean.dtype)
    if settings.pilot:
        knots = pilot_knots(settings, key_pilot, target, pilot)
    state, log_w, tally = forward(settings, key_forward, target, knots, steps)
    log_mean, se, ess = summary(log_w, settings.combine)
    lower, lower_se = ref.log_z + log_mean, se
    log_z, upper, upper_se, upper_ess = lower, *jnp.full((3,), jnp.nan, ref.mean.dtype)
    if settings.reverse:
        state = settle(settings, key_settle, target, resample(key_resample, state, log_w), steps // 4)
        back = backward(settings, key_back, target, state, knots, steps)
        back_mean, upper_se, upper_ess = summary(back, settings.combine)
        upper = ref.log_z - back_mean
        both, se = bennett(log_w, back)
        log_z = ref.log_z + both
    moves = settings.chains * jnp.maximum(steps, 1)
    estimate = Estimate(
        log_z, se, ess, lower, lower_se, upper, upper_se, upper_ess, tally.shrinks / moves, tally.stuck / moves
    )
    return estimate, state
