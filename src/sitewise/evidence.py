"""Evidence: a number that is computed from (model, data, sites).

    evidence = log Z_q + Σ_i w_i [⟨log p_i⟩ − ⟨log t_i⟩],   log Z_q = log ∫ p(f) Π t_i^{w_i} df

    laplace   value at the posterior mean                       (R&W eq. 3.32 at Laplace's sites)
    elbo      expectation under q                               (paper eq. 9)
    ep        (1/a) log-expectation of the power a under the cavity (paper eqs. 7, 16; power EP)
    collapsed the same for p̃(s) = exp E[log p(y|f) | s] on the projected process s of a sparse prior
    tight     as elbo, with a residual of a sparse prior that the row's own site has narrowed (`narrowed`)
    loo       Σ w log ∫ cavity × likelihood                     (no log Z_q: leave-one-out density, exact for Gaussian
                                                                noise, else that of the present sites of the others)

Each can be computed on the sites of any inference method.  A row of weight w < 1 has less than one copy, all of which
is left out, so that its power is a = power·min(w, 1).  Where a row has several latent values (softmax), ep and loo
leave out its whole site: the cavity is a Gaussian vector.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, on_host, to_host
from sitewise.arrays.spread import is_spread
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model, check
from sitewise.priors import Marginals
from sitewise.process.device import on_accelerator
from sitewise.process.precision import working_precision
from sitewise.rows import Values, on_rows
from sitewise.sites import Sites, expected_log_site, log_site

Terms = Callable[[Likelihood, Data, Marginals, Sites, float], Array]


def share(data: Data, power: float) -> float | Array:
    """Return the power a at which the likelihood of a row is left out: `power`, or less if its weight is below 1."""
    if not data.fractional:
        return power
    return power * jnp.where(data.mask, jnp.minimum(data.weight, 1.0), 1.0)


def _laplace(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    return likelihood.log_prob(data.y, q.mean) - log_site(sites, q.mean)


def _elbo(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    return likelihood.expected_log_prob(data.y, q.mean, q.var + q.resid) - expected_log_site(sites, q.mean, q.var)


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
    return _elbo(likelihood, data, q._replace(resid=resid), sites, power) - cost


def _ep(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    a = share(data, power)
    left = q.cavity(sites, a)
    return (likelihood.log_expected_prob(data.y, left.mean, left.f_var, a) - left.log_site) / a


# Rows per batch of the nested quadrature, on a CPU and on an accelerator: its temporaries are thousands of numbers per
# row.
_CPU_ROWS, _ACCELERATOR_ROWS = 1024, 4096


def _collapsed(likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, power: float) -> Array:
    """Return the EP terms of the bound log p ≥ log ∫ p(u) Π p̃_i(s_i) du (Jensen), with the residual variational.

    `_ep` itself averages the residual inside the logarithm, which rewards residual variance (the bias of FITC).
    """
    if likelihood.latents > 1:
        raise ValueError("The collapsed evidence is for one latent function per row; use 'elbo' for joint classes.")
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


@dataclasses.dataclass(frozen=True)
class Evidence:
    """An evidence as a function of sites, called as `elbo(model, data, sites)`."""

    name: str
    terms: Terms = dataclasses.field(repr=False)  # the repr of a function differs between processes
    with_log_z: bool = True
    power: float = 1.0
    piece: int = dataclasses.field(default=0, repr=False)  # rows per compiled program on the host; 0 for the default

    def rows(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Array:
        """Return the term of each row, not multiplied by its weight; 0 for padding."""
        return jnp.where(data.mask, self.terms(likelihood, data, q, sites.masked(data.mask), self.power), 0.0)

    def read(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Array:
        """Return the evidence, given the marginals q of prior × sites."""
        return self.total(data, q, self.terms(likelihood, data, q, sites.masked(data.mask), self.power))

    def total(self, data: Data, q: Marginals, terms: Array) -> Array:
        """Return the evidence, given the terms of the rows."""
        total = jnp.sum(data.weight * jnp.where(data.mask, terms, 0.0))
        return total + q.log_z if self.with_log_z else total

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
        return on_rows(_read, self, likelihood, data, q, sites, piece=self.piece)[1][0]


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


laplace = Evidence("laplace", _laplace)
elbo = Evidence("elbo", _elbo)
ep = Evidence("ep", _ep)
collapsed = Evidence("collapsed", _collapsed, piece=128)  # its nested quadrature then fits in the CPU cache
tight = Evidence("tight", _tight)
loo = Evidence("loo", _loo, with_log_z=False)

ALL = {e.name: e for e in (laplace, elbo, ep, collapsed, tight, loo)}
# The nested quadrature of `collapsed` takes longer than all other evidences together: it is computed on request only.
QUICK = tuple(name for name in ALL if name != "collapsed")
FOR_RESIDUALS = ("collapsed", "tight")  # without residual variance they equal `ep` (at many times the cost) and `elbo`


def power_ep(power: float) -> Evidence:
    """Return the EP evidence at a power in (0, 1], named for example "ep(0.5)"; power → 0 is the ELBO."""
    if not 0 < power <= 1:
        raise ValueError(f"power must lie in (0, 1], got {power}; for power → 0 use evidence.elbo.")
    return ep if power == 1 else dataclasses.replace(ep, name=f"{ep.name}({power:g})", power=float(power))
