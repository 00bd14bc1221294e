"""The profile objective θ ↦ evidence(θ, λ*(θ)) and its gradient.

λ*(θ) = T(λ*, θ) is the fixed point of the inference method.  With a = ∂evidence/∂λ at λ*,

    d/dθ = ∂evidence/∂θ |_λ + āᵀ ∂T/∂θ |_λ,     ā = 0              "fixed"     (the paper's M-step)
                                                ā = a              "one_step"  (one more update)
                                                ā = (I − Jᵀ)⁻¹ a   "implicit"  (exact; J = ∂T/∂λ)

"fixed" is exact where a = 0: (VI, elbo) and (EP, ep).  "one_step" is exact there too, and for
(Laplace, laplace) in the parameters of the prior.  All three are one reverse pass over
evidence(θ, λ*) + āᵀ T(λ*, θ) with λ* and ā held: first to (likelihood, q), elementwise, then from q to the gram with
the factors that q was computed from, on to the prior and to θ.

Sites λ that inference has left with a residual r = T(λ) − λ have another evidence than λ*.  With ā of "implicit", known
from the gradient, one Newton step on λ = T(λ) removes the error of first order at no cost:

    evidence(θ, λ*) = evidence(θ, λ) + āᵀ r + O(|r|²)

A likelihood that is a Gaussian in f is its own site: nothing is iterated, and for elbo and ep a = 0 and θ acts through
the likelihood and log Z_q alone.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.data import Data
from sitewise.evidence import Evidence, elbo
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import EP, VI, Inference, Solution, linearise
from sitewise.inference.linearise import adjoint, listed, paired
from sitewise.inference.loop import iterate
from sitewise.inference.start import first_sites
from sitewise.inference.update import Point
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.priors import Gram, LatentPosterior, Marginals, Prior
from sitewise.process.precision import working_precision
from sitewise.rows import Values, on_rows
from sitewise.sites import Sites

GRADIENTS = ("fixed", "one_step", "implicit")
INPUTS = "inducing"  # the name of the parameter Z of a sparse prior
_ADJOINT_TOL = 1e-8
# On approximate sites: a share of their tolerance, which leaves as large an error in the gradient, but at most this.
_ADJOINT_TOL_SHARE, _MAX_ADJOINT_TOL = 0.1, 1e-3
_ROUNDING = 1e-12  # of a derivative that is zero, as a share of the terms that cancel in it


MakePosterior = Callable[[], LatentPosterior | None]  # from a factor that is kept


class Evaluation(NamedTuple):
    """The objective and its gradient at one θ, the sites there, and on the host q(f) from the same factor."""

    value: Array
    gradient: Array
    solution: Solution
    posterior: MakePosterior | None = None


@dataclasses.dataclass(frozen=True)
class Objective:
    """The maximised function, and the parameters over which it is maximised.  Hashable: a compilation key.

    gradient  "fixed", "one_step" or "implicit"; see the head of this file
    priors    pairs of a parameter's name and its hyperprior
    jacobian  whether their density is that of the vector (log θ for a positive θ) and not of θ
    """

    inference: Inference
    evidence: Evidence
    gradient: str
    trainable: Trainable
    priors: tuple[tuple[str, HyperPrior], ...] = ()
    jacobian: bool = False

    def log_prior(self, vector: Array) -> Array:
        """Σ log p(θ) over the parameters that have a prior, or log p of the vector."""
        if self.jacobian:
            return self.trainable.log_prior(vector, self.priors)
        named = self.trainable.constrained(vector)
        return sum((jnp.sum(prior.log_prob(named[name])) for name, prior in self.priors), jnp.zeros(()))

    def log_prior_with_slope(self, vector: Array) -> tuple[Array, Array]:
        """`log_prior` and its gradient."""
        if not (self.priors or self.jacobian):
            return namespace(vector).zeros(()), namespace(vector).zeros_like(vector)
        if not is_host(vector):
            return jax.value_and_grad(self.log_prior)(vector)
        closed = self.trainable.log_prior_with_slope(vector, self.priors, self.jacobian)
        if closed is not None:
            return closed
        # The numbers of a prior that is a pytree are arguments of the compiled program.
        own = tuple(pair for pair in self.priors if jax.tree.leaves(pair[1]) == [pair[1]])
        known = [pair for pair in self.priors if pair not in own]
        bare = dataclasses.replace(self, priors=own)
        names, numbers = tuple(name for name, _ in known), tuple(prior for _, prior in known)
        return jax.tree.map(np.asarray, _log_prior_with_slope(bare, names, numbers, vector))


@functools.partial(programs.jit, static_argnums=(0, 1))
def _log_prior_with_slope(
    bare: Objective, names: tuple[str, ...], priors: tuple[HyperPrior, ...], vector: Array
) -> tuple[Array, Array]:
    whole = dataclasses.replace(bare, priors=(*bare.priors, *zip(names, priors, strict=True)))
    return jax.value_and_grad(whole.log_prior)(vector)


def profile(objective: Objective, model: Model, data: Data, vector: Array, sites: Sites) -> Evaluation:
    """Solve for the sites at θ = vector, starting from `sites`; return value and gradient there."""
    if is_host(*jax.tree.leaves((model, data, vector, sites))) and pulls_on_host(model, objective.trainable.names):
        with working_precision():
            return _profile(objective, model, data, vector, sites)
    return _traced_profile(objective, model, jax.tree.map(jnp.asarray, data), vector, sites)


def pulls_on_host(model: Model, names: Iterable[str]) -> bool:
    """Return whether the host engine has the gradient in the parameters of these names."""
    parts = ("kernel", "mean", "second", "likelihood", INPUTS)
    return model.prior.host and all(name.split(".")[0] in parts for name in names)


def _profile(objective: Objective, model: Model, data: Data, vector: Array, sites: Sites) -> Evaluation:
    at = objective.trainable.from_vector(model, vector)
    value, by_model, solution, posterior = with_slopes(
        objective.inference,
        objective.evidence,
        objective.gradient,
        at,
        data,
        sites,
        inputs=INPUTS in objective.trainable.names,
    )
    prior, prior_slope = objective.log_prior_with_slope(vector)
    return Evaluation(value + prior, objective.trainable.pull(vector, by_model) + prior_slope, solution, posterior)


def with_slopes(
    method: Inference, evidence: Evidence, gradient: str, at: Model, data: Data, sites: Sites, *, inputs: bool = False
) -> tuple[Array, Model, Solution, MakePosterior | None]:
    """Return the evidence at the θ of this model, its derivative in every number of the model, and the solution there.

    The last result makes the posterior from the factor of the solution; it is None in a traced program.  With `inputs`
    the inducing inputs of a sparse prior are among the numbers of the model.
    """
    likelihood = at.likelihood
    gram, pull_gram = _gram_with_pull(at.prior, data.X, inputs)
    if at.prior.exact and likelihood.conjugate:
        sites = first_sites(likelihood, data)
    reached = iterate(method, likelihood, gram, data, sites)
    found, q, factor = reached.solution.sites, reached.point.q, reached.factor
    weighted = found.scaled(data.weight)

    # θ enters the evidence through the likelihood and q; these are the derivatives in those two.
    missing = method.update() if gradient != "fixed" and reached.slopes is None else None
    closed = functools.partial(_closed_slopes, evidence, missing)
    stationary = gradient == "fixed" and at.prior.exact and is_stationary_pair(method, evidence, likelihood)
    if stationary and isinstance(method, EP):
        closed = functools.partial(_matched_slopes, evidence)
    rows, (value, *by_likelihood) = on_rows(
        evidence_slopes, (evidence, missing), likelihood, data, q, found, piece=evidence.piece, closed=closed
    )
    by_sites, by_rows = Sites(*rows[:2]), rows[2 : 2 + len(q.rows())]
    if stationary and is_host(q.mean) and not reached.solution.stats.clipped:
        # Zero at the fixed point.  At approximate sites they are as large as the error of the gradient without them.
        by_rows = tuple(np.zeros_like(row) for row in by_rows)
    if at.prior.exact and likelihood.conjugate and _is_stationary(evidence, data, q, found, by_sites, by_rows):
        gradient, by_rows = "fixed", tuple(np.zeros_like(row) for row in by_rows)
    if gradient != "fixed":
        by = reached.slopes or paired(method, rows[2 + len(by_rows) :])
        by_q = type(q).of_rows(by_rows, float(evidence.with_log_z))
        cov = gram.covariance(weighted, factor)
        through_q = cov.pull_to_sites(q, by_q).scaled(data.weight)
        weights = Sites(by_sites.nat1 + through_q.nat1, by_sites.prec + through_q.prec)
        if gradient == "implicit":
            tol = method.tolerance(found.nat1.dtype)
            each = float(np.clip(_ADJOINT_TOL_SHARE * tol, _ADJOINT_TOL, _MAX_ADJOINT_TOL))
            weights = adjoint(method, data, reached.point, cov, by, weights, each)
            value = value + _first_order(weights, reached.point, data, tol)
        if at.prior.exact and likelihood.latents == 1 and not by_likelihood:
            more: Values = tuple(s[0] * weights.nat1 + s[1] * weights.prec for s in by[:2] if s is not None)
        else:
            more, by_likelihood_too = on_rows(_update_slopes, method.update(), likelihood, data, q, found, *weights)
            by_likelihood = [a + b for a, b in zip(by_likelihood, by_likelihood_too, strict=True)]
        by_rows = tuple(a + b for a, b in zip(by_rows, more, strict=False)) + by_rows[len(more) :]
    by_q = type(q).of_rows(by_rows, float(evidence.with_log_z))
    bar = Model(
        pull_gram(gram.pull(weighted, factor, q, by_q)),
        jax.tree.unflatten(jax.tree.structure(likelihood), by_likelihood),
    )
    if not is_host(value):
        return value, bar, reached.solution, None
    posterior = functools.partial(at.prior.posterior_from, gram, factor, data.X, weighted)
    if at.prior.dense:  # keep one matrix of the factor instead of all
        posterior = functools.partial(lambda made: made, posterior())
    return value, bar, reached.solution, posterior


def _gram_with_pull(prior: Prior, X: Array, inputs: bool) -> tuple[Gram, Callable[[Gram], Prior]]:
    """Return the gram and its pullback; with `inputs`, which only a sparse prior has, also to the inducing inputs."""
    return prior.gram_with_pull(X, inputs=True) if inputs else prior.gram_with_pull(X)  # type: ignore[call-arg]


def slope_at_sites(objective: Objective, model: Model, data: Data, vector: Array, sites: Sites) -> Array:
    """Return ∂evidence/∂θ at any sites λ, which are held fixed: the slope that the paper's M-step follows."""
    trainable, evidence = objective.trainable, objective.evidence
    at = trainable.from_vector(model, vector)
    gram, pull_gram = _gram_with_pull(at.prior, data.X, INPUTS in trainable.names)
    weighted = sites.scaled(data.weight)
    q, factor = gram.condition_with_factor(weighted, data.mask)
    rows, (_, *by_likelihood) = on_rows(
        evidence_slopes, (evidence, None), at.likelihood, data, q, sites,
        piece=evidence.piece, closed=functools.partial(_closed_slopes, evidence, None),
    )  # fmt: skip
    by_q = type(q).of_rows(rows[2 : 2 + len(q.rows())], float(evidence.with_log_z))
    by_likelihood = jax.tree.unflatten(jax.tree.structure(at.likelihood), by_likelihood)
    return trainable.pull(vector, Model(pull_gram(gram.pull(weighted, factor, q, by_q)), by_likelihood))


def _first_order(weights: Sites, point: Point, data: Data, tol: float) -> Array:
    """Return āᵀ(T(λ) − λ), the first-order error of an evidence on sites with a residual of at most `tol`, else 0."""
    xp = namespace(point.sites.nat1)
    moved = weights.nat1 * (point.target.nat1 - point.sites.nat1)
    moved = moved + weights.prec * (point.target.prec - point.sites.prec)
    return xp.where(point.residual <= tol, xp.sum(xp.where(data.mask, moved, 0.0)), 0.0)


def _is_stationary(
    evidence: Evidence, data: Data, q: Marginals, sites: Sites, by_sites: Sites, by_rows: Values
) -> bool:
    """Return whether a and the derivatives in the rows of q are zero, up to rounding of the terms that cancel.

    Known on the host only.
    """
    if not is_host(q.mean, *by_sites, *by_rows):
        return False
    by_mean, by_var, _, by_prior_mean = by_rows  # there is no residual variance
    sd, share = np.sqrt(q.var), data.weight * float(evidence.with_log_z)
    slopes = (
        (by_mean, np.abs(sites.nat1) + 1 / sd),
        (by_var, np.abs(sites.prec) + 1 / q.var),
        (by_sites.nat1 + share * q.mean, np.abs(by_sites.nat1) + sd),
        (by_sites.prec - 0.5 * share * (q.var + q.mean**2), np.abs(by_sites.prec) + q.var),
    )
    return not np.any(by_prior_mean) and all(
        np.all(np.abs(slope) <= _ROUNDING * size, where=data.mask) for slope, size in slopes
    )


def evidence_slopes(
    settings: tuple[Evidence, Inference | None], likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
) -> tuple[Values, Values]:
    """Return the derivatives of an evidence in the sites, in the rows of q and in the likelihood, and its value.

    With a method, also the slopes of its update.
    """
    evidence, method = settings

    def read(likelihood: Likelihood, rows: Values, sites: Sites) -> Array:
        return evidence.read(likelihood, data, type(q).of_rows(rows, q.log_z), sites)

    value, slopes = jax.value_and_grad(read, argnums=(0, 1, 2))(likelihood, q.rows(), sites)
    more = () if method is None else listed(linearise.slopes(method, likelihood, data, q, sites))
    return (*slopes[2], *slopes[1], *more), (value, *jax.tree.leaves(slopes[0]))


def _closed_slopes(
    evidence: Evidence, method: Inference | None, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
) -> tuple[Values, Values] | None:
    """Return `evidence_slopes` on NumPy arrays, without a compiled program; None if the derivatives are not known."""
    found = evidence.read_with_slopes(likelihood, data, q, sites)
    if found is None or method is None:
        return found
    update = method.assess(likelihood, data, q, sites, True)
    return None if update is None else ((*found[0], *update[0][2:]), found[1])


def is_stationary_pair(method: Inference, evidence: Evidence, likelihood: Likelihood) -> bool:
    """Return whether an evidence has no derivative in the marginals and sites at the fixed point of a method.

    This holds for EP and its own evidence, of several classes the nested one: moments match.  It holds for VI and the
    ELBO where no site is held at a limit, as with two latent functions.
    """
    if isinstance(method, EP):
        return evidence.of_ep and method.power == evidence.power
    return isinstance(method, VI) and evidence.name == elbo.name and bool(likelihood.functions)


def _matched_slopes(
    evidence: Evidence, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
) -> tuple[Values, Values] | None:
    """Return `evidence_slopes` where all derivatives are zero; None if that needs a compiled program."""
    if not evidence.reads_on_host(likelihood, q):
        return _closed_slopes(evidence, None, likelihood, data, q, sites)
    return tuple(np.zeros_like(row) for row in (*sites, *q.rows())), (evidence.read(likelihood, data, q, sites),)


def _update_slopes(
    method: Inference, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, nat1: Array, prec: Array
) -> tuple[Values, Values]:
    """Return the derivatives of Σ nat1·T.nat1 + prec·T.prec in the rows of q, and in the likelihood."""

    def moved(likelihood: Likelihood, rows: Values) -> Array:
        target = method.propose(likelihood, data, type(q).of_rows(rows, q.log_z), sites)
        return jnp.sum(jnp.where(data.mask, nat1 * target.nat1 + prec * target.prec, 0.0))

    by_likelihood, by_rows = jax.grad(moved, argnums=(0, 1))(likelihood, q.rows())
    return by_rows, tuple(jax.tree.leaves(by_likelihood))


_traced_profile = functools.partial(programs.jit, static_argnums=0)(_profile)
