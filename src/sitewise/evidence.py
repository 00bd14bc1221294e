"""Evidence: a number that is computed from (model, data, sites).

    evidence = log Z_q + Σ_i w_i [⟨log p_i⟩ − ⟨log t_i⟩],   log Z_q = log ∫ p(f) Π t_i^{w_i} df

    laplace   value at the posterior mean                       (R&W eq. 3.32 at Laplace's sites)
    elbo      expectation under q                               (paper eq. 9)
    ep        (1/a) log-expectation of the power a under the cavity (paper eqs. 7, 16; power EP)
    nested    as ep, with the cavity of each site; a softmax row has one site per class
    collapsed the same for p̃(s) = exp E[log p(y|f) | s] on the projected process s of a sparse prior
    tight     as elbo, with a residual of a sparse prior that the row's own site has narrowed (`narrowed`)
    loo       Σ w log ∫ cavity × likelihood                     (no log Z_q: leave-one-out density, exact for Gaussian
                                                                noise, else that of the present sites of the others)

Each can be computed on the sites of any inference method.  A row of weight w < 1 has less than one copy, all of which
is left out, so that its power is a = power·min(w, 1).  Where a row has several latent values (softmax, two functions),
ep and loo leave out its whole site: the cavity is a Gaussian vector.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, is_host, namespace, on_host, to_host
from sitewise.arrays.spread import is_spread
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model, check
from sitewise.priors import Marginals
from sitewise.process.device import on_accelerator
from sitewise.process.precision import working_precision
from sitewise.rows import Values, on_rows
from sitewise.sites import Sites, cavity_on_host, expected_log_site, log_site

Terms = Callable[[Likelihood, Data, Marginals, Sites, float], Array]
Slopes = Callable[[Likelihood, Data, Marginals, Sites], Sequence[Array] | None]
MARGINAL_SLOPES = 5  # derivatives in nat1, prec, mean, var, resid; those in the parameters of the likelihood follow


def share(data: Data, power: float) -> float | Array:
    """Return the power a at which the likelihood of a row is left out: `power`, or less if its weight is below 1."""
    if not data.fractional:
        return power
    xp = namespace(data.weight)
    return power * xp.where(data.mask, xp.minimum(data.weight, 1.0), 1.0)


def per_row(likelihood: Likelihood, values: Array) -> Array:
    """Return the sum over the scalar sites of a row, if two latent functions have several; else the values."""
    return namespace(values).sum(values, axis=0) if likelihood.functions else values


def _laplace(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    return likelihood.log_prob(data.y, q.mean) - per_row(likelihood, log_site(sites, q.mean))


def _laplace_slopes(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sequence[Array] | None:
    found = likelihood.log_prob_slopes(data.y, q.mean)
    if found is None:
        return None
    none = np.zeros_like(q.mean)
    terms, by_mean = found[0] - log_site(sites, q.mean), found[1] - sites.nat1 + sites.prec * q.mean
    return terms, -q.mean, 0.5 * q.mean**2, by_mean, none, none


def _elbo(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    expected = likelihood.expected_log_prob(data.y, q.mean, q.var + q.resid)
    return expected - per_row(likelihood, expected_log_site(sites, q.mean, q.var))


def _elbo_slopes(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sequence[Array] | None:
    found = likelihood.expected_log_prob_slopes(data.y, q.mean, q.var + q.resid)
    if found is None:
        return None
    expected, first, second, *_ = found  # ∂/∂var of an expectation is half of its second derivative in the mean
    terms, by_mean = expected - expected_log_site(sites, q.mean, q.var), first - sites.nat1 + sites.prec * q.mean
    return terms, -q.mean, 0.5 * (q.mean**2 + q.var), by_mean, 0.5 * (second + sites.prec), 0.5 * second


def narrowed(data: Data, q: Marginals, sites: Sites) -> tuple[Array, Array]:
    """Return the narrowed residual variances r̃ = v·r of a sparse prior, and their costs (v − 1 − log v)/2.

    The ELBO gives f, conditioned on the inducing variables, its prior variance r.  A Gaussian of the variance v·r about
    the same mean is also allowed, at the cost of its divergence from N(0, r) (Titsias 2025; Bui, Ashman & Turner 2025).
    With W = −E[∂² log p], which is the row's site precision at a fixed point, the optimum is

        v = 1/(1 + r W)          (W = 1/σ² for Gaussian noise: tr(K − Q)/(2σ²) becomes ½ Σ log(1 + r/σ²))

    This treats residuals as independent.  Their covariance is D = K − Q, and a Gaussian of the covariance
    (D⁻¹ + W)⁻¹ costs more, by Hadamard's inequality, but has smaller variances Σ_ii ≤ v_i r_i:

        Σ [E_(Σ_ii) log p + ½ W Σ_ii] − ½ log|I + W½DW½|  ≥  Σ [E_(v r) log p + ½ W v r − ½ log(1 + W r)]

    if E log p as a function of the variance lies above its tangent at v·r, which always holds for Gaussian noise.
    Otherwise the sum is still a bound on the evidence for independent residuals (as in FITC).  With one v for all rows
    it would be a bound on the evidence in every case.  A row of weight a < 1 is narrowed by a share a of its site.
    """
    a = share(data, 1.0)
    v = 1 / (1 + a * q.resid * jnp.maximum(sites.prec, 0.0))
    return v * q.resid, 0.5 * (v - 1 - jnp.log(v)) / a


def _tight(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    resid, cost = narrowed(data, q, sites)
    return _elbo(likelihood, data, q._replace(resid=resid), sites, power) - per_row(likelihood, cost)


def _ep(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    a = share(data, power)
    left = q.cavity(sites, a)
    return (likelihood.log_expected_prob(data.y, left.mean, left.f_var, a) - left.log_site) / a


def _ep_slopes(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sequence[Array] | None:
    """With the cavity N(m, v), q = N(m_q, v_q) and δ = m_q − m, the terms are ℓ − s, ℓ = log E[p] and s = log E[t]:

    ∂ℓ/∂v = ½(ℓ₂ + ℓ₁²),    s = ½ log(1 − prec·v_q) + ½ [nat1·(m_q + m) − prec·m_q·m],
    ∂s/∂m = δ/v,    ∂s/∂v = ½ [(v_q + δ²)/v² − 1/v],    ∂s/∂nat1 = m_q,    ∂s/∂prec = −½(v_q + m_q²)
    """
    left = cavity_on_host(q.mean, q.var, sites) if likelihood.latents == 1 else None
    found = None if left is None else likelihood.log_expected_prob_slopes(data.y, left.mean, left.var + q.resid)
    if left is None or found is None:
        return None
    (value, first, second), by_parameters = found[:3], found[6:]
    shift, by_f_var = q.mean - left.mean, 0.5 * (second + first**2)
    log_site = 0.5 * (np.log(left.kept) + sites.nat1 * (q.mean + left.mean) - sites.prec * q.mean * left.mean)
    by_left = first - shift / left.var, by_f_var - 0.5 * ((q.var + shift**2) / left.var - 1) / left.var
    by_mean, by_var, by_nat1, by_prec = left.pull(q, sites, *by_left)
    by_prec = by_prec + 0.5 * (q.var + q.mean**2)
    return value - log_site, by_nat1 - q.mean, by_prec, by_mean, by_var, by_f_var, *by_parameters


def _nested(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    """Return the terms of EP's evidence of the model in which every site has one factor of its own.

    For softmax this model has the shift s besides f, with a flat prior (`likelihoods.softmax`).  log Z_q is that of the
    largest s; integrating over the s of each copy of a row adds ½ log(2π·Var[s | f]).  On EP's sites the total is
    stationary, unlike `ep`, which integrates softmax over the cavity of the whole row.  With one latent value per row
    the two are equal.
    """
    if likelihood.latents == 1 or likelihood.functions:
        return _ep(likelihood, data, q, sites, power)
    a = share(data, power)
    left = q.site_cavity(sites, a, data.weight)
    each = (likelihood.log_expected_factor(data.y, left.mean, left.f_var, a) - left.log_site) / a
    return namespace(each).sum(each, axis=0) + q.log_shift_width(data.weight)


# Rows per batch of the nested quadrature, on a CPU and on an accelerator: its temporaries are thousands of numbers per
# row.
_CPU_ROWS, _ACCELERATOR_ROWS = 1024, 4096


def _collapsed(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    """Return the EP terms of the bound log p ≥ log ∫ p(u) Π p̃_i(s_i) du (Jensen), with the residual variational.

    `_ep` itself averages the residual inside the logarithm, which rewards residual variance (the bias of FITC).
    """
    if likelihood.latents > 1:
        raise ValueError("The collapsed evidence is for one latent function per row; use 'elbo' for several.")
    a = share(data, power)
    left = q.cavity(sites, a)

    @jax.checkpoint
    def tilted(row: tuple[Array, ...]) -> Array:
        y, mean, var, resid, start, *power = row
        return likelihood.log_expected_smoothed_prob(y, mean, var, resid, power[0] if power else a, start)

    rows = (data.y, left.mean, left.var, q.resid, q.mean) + ((a,) if jnp.ndim(a) else ())
    chunk = _ACCELERATOR_ROWS if on_accelerator() else _CPU_ROWS
    values = tilted(rows) if data.rows <= chunk else lax.map(tilted, rows, batch_size=chunk)
    return (values - left.log_site) / a


def _loo(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    left = q.cavity(sites, share(data, 1.0))
    return likelihood.log_expected_prob(data.y, left.mean, left.f_var)


def _loo_slopes(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sequence[Array] | None:
    left = cavity_on_host(q.mean, q.var, sites) if likelihood.latents == 1 else None
    found = None if left is None else likelihood.log_expected_prob_slopes(data.y, left.mean, left.var + q.resid)
    if left is None or found is None:
        return None
    (value, first, second), by_parameters = found[:3], found[6:]
    by_f_var = 0.5 * (second + first**2)
    by_mean, by_var, by_nat1, by_prec = left.pull(q, sites, first, by_f_var)
    return value, by_nat1, by_prec, by_mean, by_var, by_f_var, *by_parameters


@dataclasses.dataclass(frozen=True)
class Evidence:
    """An evidence (approximate log marginal likelihood) as a function of sites, called as `elbo(model, data, sites)`.

    Parameters
    ----------
    name : str
        The name in methods and reports.
    terms : function
        (likelihood, data, marginals, sites, power) → one term per row.
    with_log_z : bool, default=True
        Whether log Z_q is added.
    power : float, default=1.0
        The power of EP's evidence.
    piece : int, default=0
        Rows per compiled program on the host; 0 for the default.
    slopes : callable or None, default=None
        The terms with their derivatives in (nat1, prec, mean, var, resid) and in the parameters of the likelihood at
        power 1, on NumPy arrays; None: they are computed by a compiled program.
    """

    name: str
    terms: Terms = dataclasses.field(repr=False)  # the repr of a function differs between processes
    with_log_z: bool = True
    power: float = 1.0
    piece: int = dataclasses.field(default=0, repr=False)  # rows per compiled program on the host; 0 for the default
    slopes: Slopes | None = dataclasses.field(default=None, repr=False, compare=False)

    def rows(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Array:
        """Return the term of each row, not multiplied by its weight; 0 for padding."""
        return jnp.where(data.mask, self.terms(likelihood, data, q, sites.masked(data.mask), self.power), 0.0)

    def read(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Array:
        """Return the evidence, given the marginals q of prior × sites."""
        return self.total(data, q, self.terms(likelihood, data, q, sites.masked(data.mask), self.power))

    def total(self, data: Data, q: Marginals, terms: Array) -> Array:
        """Return the evidence, given the terms of the rows."""
        xp = namespace(terms)
        total = xp.sum(data.weight * xp.where(data.mask, terms, 0.0))
        return total + q.log_z if self.with_log_z else total

    @property
    def of_ep(self) -> bool:
        """Whether this is EP's evidence at some power; of several classes the nested one."""
        return self.terms in (_ep, _nested)

    def reads_on_host(self, likelihood: Likelihood, q: Marginals) -> bool:
        """Return whether `read` takes NumPy arrays without a compiled program: the nested evidence of softmax."""
        return self.terms is _nested and likelihood.latents > 1 and is_host(q.mean, q.log_z)

    def read_with_slopes(
        self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
    ) -> tuple[Values, Values] | None:
        """Return `learning.objective.evidence_slopes` on NumPy arrays for whole weights, if `slopes` are known."""
        found = None if self.slopes is None or self.power != 1 else self.slopes(likelihood, data, q, sites)
        if found is None:
            return None
        terms, *slopes = found
        slopes, by_parameters = slopes[:MARGINAL_SLOPES], slopes[MARGINAL_SLOPES:]
        if len(by_parameters) != len(jax.tree.leaves(likelihood)):
            return None
        weight = np.where(data.mask, data.weight, 0.0)
        rows = (*(weight * slope for slope in slopes), np.zeros_like(weight))
        return rows, (self.total(data, q, terms), *(np.sum(weight * one) for one in by_parameters))

    def __call__(self, model: Model, data: Data, sites: Sites) -> Array:
        """Return the evidence; on a CPU it is computed in double precision and is a NumPy number."""
        check(model, data, sites, needs_sites=True)
        if model.prior.host and on_host(model, data, sites):
            with working_precision():
                return self.on_marginals(*conditioned(*to_host((model, data, sites))))
        if is_spread(data):
            with working_precision():
                return _on_devices(self, model, data, sites)
        return self.on_marginals(*conditioned(model, jax.tree.map(jnp.asarray, data), sites))

    def on_marginals(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Array:
        """Return `read` for NumPy or JAX arrays."""
        if self.reads_on_host(likelihood, q):
            return self.read(likelihood, data, q, sites)
        closed = self.read_with_slopes
        return on_rows(_read, self, likelihood, data, q, sites, piece=self.piece, closed=closed)[1][0]


def conditioned(model: Model, data: Data, sites: Sites) -> tuple[Likelihood, Data, Marginals, Sites]:
    """Condition the model on its sites: the arguments of `Evidence.read`."""
    gram = model.prior.gram(data.X)
    if not model.likelihood.log_concave:  # Laplace's sites may have negative precisions
        gram = gram.signed()
    return model.likelihood, data, gram.condition(sites.scaled(data.weight)), sites


def _read(evidence: Evidence, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> tuple[Values, Values]:
    return (), (evidence.read(likelihood, data, q, sites),)


@functools.partial(programs.jit, static_argnums=0)
def _on_devices(evidence: Evidence, model: Model, data: Data, sites: Sites) -> Array:
    return evidence.on_marginals(*conditioned(model, data, sites))


laplace = Evidence("laplace", _laplace, slopes=_laplace_slopes)
elbo = Evidence("elbo", _elbo, slopes=_elbo_slopes)
ep = Evidence("ep", _ep, slopes=_ep_slopes)
collapsed = Evidence("collapsed", _collapsed, piece=128)  # its nested quadrature then fits in the CPU cache
tight = Evidence("tight", _tight)
nested = Evidence("nested", _nested)
half_nested = Evidence("nested(0.5)", _nested, power=0.5)
loo = Evidence("loo", _loo, with_log_z=False, slopes=_loo_slopes)

ALL = {e.name: e for e in (laplace, elbo, ep, nested, half_nested, collapsed, tight, loo)}
# The others are computed on request: the quadrature of `collapsed` takes longer than all other evidences together, and
# `nested` is an objective for learning; `ep` is closer to log Z.
QUICK = ("laplace", "elbo", "ep", "tight", "loo")
FOR_RESIDUALS = ("collapsed", "tight")  # without residual variance they equal `ep` (at many times the cost) and `elbo`


def power_ep(power: float) -> Evidence:
    """Return the EP evidence at a power, named for example "ep(0.5)"; power → 0 is the ELBO.

    Parameters
    ----------
    power : float
        A number in (0, 1].
    """
    if not 0 < power <= 1:
        raise ValueError(f"power must lie in (0, 1], got {power}; for power → 0 use evidence.elbo.")
    return ep if power == 1 else dataclasses.replace(ep, name=f"{ep.name}({power:g})", power=float(power))
