"""Learning from batches of rows: variational inference with tied sites, for tables that do not fit into memory.

Sites per row would be 2n numbers; here their sums over rows are kept (Adam, Chang, Khan & Solin 2021), in the whitened
coordinates of `priors.sparse.features`,

    nat1 = Σ_i φ_i λ1_i,   prec = Σ_i λ2_i φ_i φ_iᵀ,   q(v) = N(S nat1, S),   S⁻¹ = I + prec

where prec is positive whatever the rounding: with k_i = κ(Z, x_i) in place of φ_i, as in that paper, rounding destroys
every digit of it for a million rows under a wide prior.  A batch of B out of n rows gives an estimate of both sums at
the present q, and a natural-gradient step of size ρ is tied ← (1−ρ) tied + ρ·(n/B)·(sums over the batch).  The
hyperparameters maximise the same estimate of

    ELBO = Σ_i E_q[log p(y_i|f_i)] − KL(q(v) ‖ N(0, I))

by Adam with the tied sites held.  Sites that lag behind slow the hyperparameters down along flat directions; therefore
learning starts from the optimum on a random sample of rows, found by `Nested`.  At the end the hyperparameters are the
average over the last half round, and whole passes over the data solve for the sites there, so that the result does not
depend on the batches.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence
from sitewise.arrays import programs
from sitewise.checks import must_be
from sitewise.data import Data
from sitewise.inference import VI, Inference
from sitewise.learning.fit import Fit, climbed
from sitewise.learning.nested import Nested
from sitewise.learning.objective import Objective
from sitewise.learning.search import Callback
from sitewise.learning.stream import Source, Stream
from sitewise.likelihoods import Likelihood
from sitewise.model import Model, check
from sitewise.numerics.dense import cholesky, triangular
from sitewise.parameters import Groups, Trainable
from sitewise.predict import Posterior
from sitewise.priors import Marginals
from sitewise.priors.sparse.features import Inner
from sitewise.priors.sparse.sparse_prior import SparsePosterior, SparsePrior
from sitewise.process.precision import WORKING_DTYPE, working_precision
from sitewise.sites import Sites

_STEPS = 100  # the least number in a round
_HELD = 20  # first steps, in which only the sites move
_PASSES = 100  # the most passes over the data that solve for the sites at the end


class Tied(NamedTuple):
    """Sums over rows of φ λ1 and λ2 φ φᵀ."""

    nat1: jax.Array
    prec: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class BatchFit(Fit):
    """A fit from batches: it holds the sums of the sites instead of one site per row."""

    tied: Tied
    rows: int

    @property
    def weight(self) -> float:
        return float(self.rows)

    @property
    def evidences(self) -> dict[str, float]:
        """The bound that was maximised; the other evidences need the sites of single rows."""
        return {"elbo": self.objective}

    def posterior(self) -> Posterior:
        with working_precision():
            return Posterior(_posterior(_sparse_prior(self.model), self.tied)[0], self.model.likelihood)


def _sparse_prior(model: Model) -> SparsePrior:
    if not isinstance(model.prior, SparsePrior):
        raise ValueError("Mini-batches need a sparse model; make one with Model.sparse(kernel, likelihood, Z).")
    if model.likelihood.latents > 1:
        raise ValueError("Mini-batches are for one latent function per row; train joint classes with Nested.")
    return model.prior


def _posterior(prior: SparsePrior, tied: Tied) -> tuple[SparsePosterior, jax.Array]:
    """q, and KL(q(v) ‖ N(0, I)) = ½ (tr S + |c|² − m) + ½ log|S⁻¹|."""
    m = tied.nat1.shape[0]
    H, half_log_det, _ = cholesky.inverse_root(jnp.eye(m, dtype=tied.prec.dtype) + tied.prec)
    coef = H.T @ (H @ tied.nat1)
    kl = 0.5 * (jnp.sum(H * H) + coef @ coef - m) + half_log_det
    return SparsePosterior(prior.whitened(tied.nat1.dtype), prior.mean, Inner(coef, H)), kl


def _marginals(q: SparsePosterior, X: jax.Array) -> tuple[Marginals, jax.Array]:
    """q of the rows of X, and their features."""
    phi, diag = q.whitened(X)
    C, mu = phi @ q.inner.H.T, q.mean.at(X)
    resid = jnp.maximum(diag - jnp.sum(phi * phi, axis=1), 0.0)
    out = Marginals(mu + phi @ q.inner.coef, jnp.sum(C * C, axis=1), resid, jnp.zeros(()), mu, q.whitened.jitter)
    return out, phi


def _fit_term(likelihood: Likelihood, q: Marginals, data: Data) -> jax.Array:
    expected = likelihood.expected_log_prob(data.y, q.mean, q.var + q.resid)
    return jnp.sum(data.weight * jnp.where(data.mask, expected, 0.0))


def _targets(likelihood: Likelihood, q: Marginals, phi: jax.Array, data: Data) -> Tied:
    """The sums, over these rows, of the sites that VI would set."""
    sites = VI().propose(likelihood, data, q, Sites(jnp.zeros_like(q.mean), jnp.zeros_like(q.mean)))
    nat1 = jnp.where(data.mask, data.weight * (sites.nat1 - sites.prec * q.prior_mean), 0.0)
    prec = jnp.where(data.mask, data.weight * sites.prec, 0.0)
    return Tied(phi.T @ nat1, triangular.weighted_gram(phi, prec))


@programs.jit
def _whole(model: Model, tied: Tied, data: Data) -> tuple[jax.Array, Tied]:
    """The term of the ELBO and the part of the tied sites that belong to one batch."""
    q, phi = _marginals(_posterior(_sparse_prior(model), tied)[0], data.X)
    return _fit_term(model.likelihood, q, data), _targets(model.likelihood, q, phi, data)


_kl = programs.jit(lambda prior, tied: _posterior(prior, tied)[1])


@functools.partial(programs.jit, static_argnums=0)
def _step(
    trainable: Trainable,
    model: Model,
    vector: jax.Array,
    adam: Any,
    tied: Tied,
    data: Data,
    scale: jax.Array,
    rates: jax.Array,
) -> tuple[jax.Array, jax.Array, Any, Tied]:
    """One natural-gradient step on the sites and one Adam step on the hyperparameters, from the same batch."""
    import optax  # half a second to import, and used only here

    site_rate, rate = rates

    def estimate(vector: jax.Array) -> tuple[jax.Array, tuple[Marginals, jax.Array]]:
        here = trainable.from_vector(model, vector)
        q, kl = _posterior(here.prior, tied)
        marginals, phi = _marginals(q, data.X)
        return scale * _fit_term(here.likelihood, marginals, data) - kl, (marginals, phi)

    (value, (marginals, phi)), slope = jax.value_and_grad(estimate, has_aux=True)(vector)
    target = _targets(trainable.from_vector(model, vector).likelihood, marginals, phi, data)
    moved = jax.tree.map(lambda old, new: (1 - site_rate) * old + site_rate * scale * new, tied, target)
    step, adam = optax.scale_by_adam().update(slope, adam)
    return value, vector + rate * step, adam, moved


@dataclasses.dataclass(frozen=True)
class MiniBatch:
    """Train a sparse model by stochastic variational inference.

    size         rows in a batch
    sample       rows of the first optimum; 0 starts from the model as given
    site_rate    ρ of the natural-gradient step
    rate         Adam's step on the (log) hyperparameters
    rounds       at most so many rounds; a round is whole epochs, of at least 100 steps together
    tol          when a round's mean ELBO, per row, is not this much above the best before, the rates are quartered;
                 the third time learning ends
    """

    size: int = 2048
    sample: int = 4096
    site_rate: float = 0.4
    rate: float = 0.05
    rounds: int = 50
    tol: float = 3e-4
    fixed: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    name: str = "minibatch"
    tied: Groups = ()

    def __post_init__(self) -> None:
        for name, low in (("size", 1), ("sample", 0), ("rounds", 1)):
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)}.")

    def final_inference(self, model: Model) -> Inference:
        return VI()

    def fit(self, model: Model, data: Source, *, seed: int = 0, callback: Callback | None = None) -> BatchFit:
        """`data` is (X, y), in memory or memory-mapped, or a function that returns an iterator of such tables.

        The callback is that of `Learner`, called after every batch.
        """
        must_be(model, Model, "The model", "Model.sparse(kernel, likelihood, Z)")
        _sparse_prior(model)  # refuses other structures before the data are read
        with working_precision():
            return self._fit(model, Stream(data, self.size), seed, callback)

    def _fit(self, model: Model, stream: Stream, seed: int, callback: Callback | None) -> BatchFit:
        import optax

        trainable = Trainable.of(model, self.fixed, self.train, tied=self.tied)
        rng = np.random.default_rng(seed)
        if self.sample:
            first = Nested(VI(), evidence.elbo, "auto", self.fixed, self.train, tol=1e-4, tied=self.tied)
            model = first.fit(model, _sample(stream, self.sample, rng)).model
        vector = jnp.asarray(trainable.to_vector(model), WORKING_DTYPE)
        adam = optax.scale_by_adam().init(vector)
        m = len(_sparse_prior(model).inducing)
        tied = Tied(jnp.zeros(m), jnp.zeros((m, m)))
        trace: list[dict[str, Any]] = []
        best, slower, reason = -np.inf, 0, "stopped early: the cap on rounds was reached"
        per_epoch = -(-stream.rows // self.size)
        epochs = -(-_STEPS // per_epoch)
        for number in range(self.rounds):
            values: list[float] = []
            path: list[jax.Array] = []
            rates = np.array([self.site_rate, self.rate]) / 4.0**slower
            for data in (batch for _ in range(epochs) for batch in stream.batches(rng)):
                check(model, data)
                scale = stream.rows / np.sum(data.weight)
                now = rates * [1, not (number == 0 and len(values) < _HELD)]
                value, vector, adam, tied = _step(trainable, model, vector, adam, tied, data, scale, now)
                values.append(float(value) / stream.rows)
                path.append(vector)
                if not np.isfinite(values[-1]) or not np.all(np.isfinite(vector)):
                    raise ValueError("The ELBO is no longer finite; lower rate and site_rate, or scale the inputs.")
                if callback is not None:
                    share = (number + len(values) / (epochs * per_epoch)) / self.rounds
                    callback({"round": number, "share": share, "objective": float(value)})
            half = len(path) // 2
            mean = float(np.mean(values[half:]))
            trace.append({"round": number, "elbo": mean, "rate": rates[1], "vector": np.mean(path[half:], axis=0)})
            if mean < best + self.tol:
                slower += 1
            if slower == 3:
                reason = f"converged: a round adds less than {self.tol:g} nats a row"
                break
            best = max(best, mean)
        vector = jnp.asarray(trace[-1]["vector"])
        model = jax.tree.map(np.asarray, trainable.from_vector(model, vector))
        tied, elbo, settled = _settle(model, tied, stream)
        if not settled:
            reason += "; the sites were still moving after the last pass"
        return BatchFit(
            model=model,
            method=self.name,
            inference="vi",
            objective=elbo,
            converged=slower == 3 and settled,
            reason=reason,
            rounds=len(trace),
            trace=trace,
            tied=tied,
            rows=stream.rows,
            climbed=climbed(Objective(VI(), evidence.elbo, "fixed", trainable), model),
        )


def _sample(stream: Stream, rows: int, rng: np.random.Generator) -> Data:
    """Rows drawn at random, in one pass over the stream."""
    wanted = np.sort(rng.choice(stream.rows, min(rows, stream.rows), replace=False))
    X, y = [], []
    for number, data in enumerate(stream.batches()):
        here = wanted[wanted // stream.size == number] % stream.size
        X.append(data.X[here])
        y.append(data.y[here])
    return Data.of(np.concatenate(X), np.concatenate(y))


def _settle(model: Model, tied: Tied, stream: Stream) -> tuple[Tied, float, bool]:
    """The sites at these hyperparameters, by whole passes; a pass that lowers the ELBO is undone, its step halved."""

    def look(tied: Tied) -> tuple[float, Tied]:
        parts = [_whole(model, tied, data) for data in stream.batches()]
        elbo = sum(float(p[0]) for p in parts) - float(_kl(model.prior, tied))
        return elbo, jax.tree.map(lambda *a: sum(a), *(p[1] for p in parts))

    elbo, target = look(tied)
    rate = 1.0
    for _ in range(_PASSES):
        moved = jax.tree.map(lambda old, new, rate=rate: (1 - rate) * old + rate * new, tied, target)
        new_elbo, new_target = look(moved)
        gain = new_elbo - elbo
        if gain < -1e-11 * abs(elbo):
            rate /= 2
            continue
        tied, elbo, target = moved, new_elbo, new_target
        if gain < 1e-11 * abs(elbo):
            return tied, elbo, True
    return tied, elbo, False
