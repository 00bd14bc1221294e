"""The GP prior of a time series as a Markov chain of s states: equal to the full GP, time O(n s³), memory O(n s²).

The kernel gives the chain (`kernels.state_space`); conditioning on sites is a filter and a smoother
(`numerics.markov.filtering`).  Rows may come in any order, at equal times and with gaps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import means
from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array, cond, is_host, namespace, put
from sitewise.checks import at_least, known
from sitewise.kernels import Kernel
from sitewise.kernels.state_space import check_form, form, shortest, states_of, truncation_error
from sitewise.numerics.markov import chain_draws, chain_products, chain_tail, filtering
from sitewise.numerics.markov.filtering import Smoothed
from sitewise.numerics.markov.recursions import vector_forward
from sitewise.parts import chains
from sitewise.priors.base import Factor, Prior, one_latent
from sitewise.priors.full import FullPrior
from sitewise.priors.kernel_sums import not_negative
from sitewise.priors.markov.markov_gram import MarkovGram, unsorted
from sitewise.priors.posterior import Expansion, LatentPosterior, Tail
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace, static

MAX_ROWS_AT_ONCE, BLOCK_ROWS = 2048, 4096  # longer chains are made in blocks
MAX_EXPORTED_ROWS = 3000  # an export holds a matrix of them
MAX_TRUNCATION_ERROR = 0.01  # variance share of the omitted harmonics of a periodic kernel


@module
class MarkovPrior(Prior):
    """A prior of one input column, time.

    harmonics  number of harmonics of a periodic kernel; `kernels.state_space.truncation_error` gives the error
    series     column whose values name independent series that share all parameters; None: one series
    """

    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())
    harmonics: int = static(default=7)
    series: int | None = static(default=None)

    structure: ClassVar[str] = "markov"
    about: ClassVar[str] = "The rows are a series in time; the GP is computed as a Markov chain."
    host: ClassVar[bool] = True

    def check(self, columns: int, latents: int) -> None:
        at_least("harmonics", self.harmonics, 1)
        wanted = 1 if self.series is None else 2
        if columns != wanted or self.series not in (None, 0, 1):
            raise ValueError(
                f"A Markov prior is for inputs of one column, the time, or of two with series=0 or 1 for the number of "
                f"the column that names the series; got {columns} with series={self.series}. Use Model.full or "
                "Model.sparse for other inputs."
            )
        super().check(1, latents)
        one_latent(self, latents)
        check_form(self.kernel)
        if all(known(leaf) for leaf in jax.tree.leaves(self.kernel)):
            error = truncation_error(self.kernel, self.harmonics)
            if error > MAX_TRUNCATION_ERROR:
                raise ValueError(
                    f"{self.harmonics} harmonics leave out {error:.2g} of the variance of a periodic kernel with this "
                    "lengthscale; raise harmonics, or use Model.full."
                )

    def least(self) -> dict[str, float]:
        """Return the shortest lengthscales of periodic parts that `check` accepts."""
        return shortest(self.kernel, self.harmonics, 0.99 * MAX_TRUNCATION_ERROR, "kernel")

    def check_rows(self, X: np.ndarray) -> None:
        super().check_rows(self.time(X))

    def kernel_columns(self, X: Array) -> Array:
        return self.time(X)

    def count_series(self, X: Array) -> int:
        return len(np.unique(np.asarray(self.name(X))))

    def order(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self._rows(X)[0])

    def time(self, X: Array) -> Array:
        """Return the column of times, as a table."""
        return X if self.series is None else X[:, 1 - self.series][:, None]

    def name(self, X: Array) -> Array:
        """Return the series per row."""
        return namespace(X).zeros_like(X[:, 0]) if self.series is None else X[:, self.series]

    def _rows(self, X: Array) -> tuple[Array, Array]:
        """Return the order of the rows, by series and time; and step, time and start per row in this order."""
        xp = namespace(X)
        time, name = self.time(X)[:, 0], self.name(X)
        order = xp.lexsort((time, name))
        time, name = time[order], name[order]
        first = xp.concatenate([xp.ones(1, bool), name[1:] != name[:-1]])[: len(time)]
        step = xp.where(first, 0.0, time - xp.roll(time, 1))
        return order, xp.stack([step, time, first.astype(time.dtype)])

    def gram(self, X: Array) -> MarkovGram:
        return self.gram_with_pull(X)[0]

    def gram_with_pull(self, X: Array) -> tuple[MarkovGram, Callable[[MarkovGram], MarkovPrior]]:
        order, rows = self._rows(X)
        piece = BLOCK_ROWS if X.shape[0] > MAX_ROWS_AT_ONCE else 0
        (A, Q, h), _ = rowwise.apply(_chain, self.harmonics, self.kernel, (rows,), piece)
        xp, time = namespace(A), self.time(X)
        (A, Q, h), end = (xp.moveaxis(a, -1, 0) for a in (A, Q, h)), xp.zeros((1, *A.shape[:2]), A.dtype)
        chain = xp.concatenate([A, end]), xp.concatenate([Q, end]), xp.concatenate([end[:, 0], h])
        gram = MarkovGram(*chain, order, self.mean.at(time))

        def pull(bar: MarkovGram) -> MarkovPrior:
            both = xp.stack([xp.moveaxis(a[:-1], 0, -1) for a in (bar.A, bar.Q)])
            _, sums = rowwise.apply(_pull_chain, self.harmonics, self.kernel, (both, rows), piece)
            if is_host(bar.mean, *jax.tree.leaves(self)):
                mean = self.mean.pull(time, bar.mean)
            else:
                mean = jax.vjp(lambda mean: mean.at(time), self.mean)[1](bar.mean)[0]
            return replace(self, kernel=jax.tree.unflatten(jax.tree.structure(self.kernel), sums), mean=mean)

        return gram, pull

    def draw(self, key: Array, X: Array, samples: int) -> Array:
        """Draw f jointly at these rows, O(rows) per draw; the result has one row per draw."""
        gram = self.gram(X)
        return gram.mean + chain_draws.of_chain(gram.chain, key, samples)[:, gram.places()]

    def as_full(self, rows: float = np.inf) -> Prior:
        return FullPrior(self.kernel, self.mean) if self.series is None else self

    def posterior(self, X: Array, sites: Sites) -> MarkovPosterior:
        gram = self.gram(X)
        return self.posterior_from(gram, gram.condition_with_factor(sites, None)[1], X, sites)

    def posterior_from(self, gram: MarkovGram, factor: Factor, X: Array, sites: Sites) -> MarkovPosterior:
        states = filtering.states(gram.chain, factor)
        seen = np.ones(gram.h.shape[1])
        return MarkovPosterior(self, X, sites, X[gram.order], *states, factor.r, factor.N, seen, self.mean)


def _chain(harmonics: int, kernel: Kernel, rows: tuple[Array]) -> tuple[tuple[Array, ...], tuple[()]]:
    """Return A, Q and h, with the rows last.  A series starts with the prior covariance of its state."""
    dtype = rows[0].dtype

    def one(step: Array, time: Array, first: Array) -> tuple[Array, ...]:
        P, A, Q, h = form(kernel, harmonics, step, time)
        found = jnp.where(first > 0, 0.0, A), jnp.where(first > 0, P, Q), h
        return tuple(a.astype(dtype) for a in found)

    return jax.vmap(one, in_axes=-1, out_axes=-1)(*rows[0]), ()


def _pull_chain(
    harmonics: int, kernel: Kernel, rows: tuple[Array, Array]
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the cotangent of the kernel, given the cotangents of A and Q."""
    (A_bar, Q_bar), at = rows
    by_kernel = jax.vjp(lambda kernel: _chain(harmonics, kernel, (at,))[0][:2], kernel)[1]((A_bar, Q_bar))[0]
    return (), tuple(jax.tree.leaves(by_kernel))


@module
class MarkovPosterior(LatentPosterior):
    """q(f) at new times, from the states of the rows before and after.

    rows  inputs in the order of time
    m, P  mean and covariance of the state per row given the sites up to it, after an empty entry for the start
    r, N  per step to a row, as in `numerics.markov.filtering`; zeros after the last
    seen  per state: 1 if it belongs to f, or to the part of f that this posterior describes
    mean  of f, or of this part of f
    """

    prior: MarkovPrior = fixed()
    X: Array = fixed()
    sites: Sites = fixed()
    rows: Array = fixed()
    m: Array = fixed()
    P: Array = fixed()
    r: Array = fixed()
    N: Array = fixed()
    seen: Array = fixed()
    mean: means.Mean = fixed()

    @property
    def kernel(self) -> Kernel:
        return self.prior.kernel

    def part(self, chosen: tuple[int, ...], mean: means.Mean) -> MarkovPosterior:
        """Return the same chain with other states in `seen`."""
        return replace(self, seen=states_of(self.prior.kernel, self.prior.harmonics, chosen), mean=mean)

    def parts_joint(self, X_new: Array, parts: Sequence[tuple[int, ...]]) -> tuple[Array, Array]:
        xp, rows = namespace(self.X, X_new), X_new.shape[0]
        each = [states_of(self.prior.kernel, self.prior.harmonics, chosen) for chosen in parts]
        mean, cov = self._joint(xp.concatenate([X_new] * len(parts)), np.repeat(each, rows, axis=0))
        return mean.reshape(len(parts), rows), cov.reshape(len(parts), rows, len(parts), rows)

    def _places(self, X_new: Array) -> Array:
        """Return the number of training rows before each new row."""
        xp, prior = namespace(self.rows, X_new), self.prior
        if prior.series is None:
            return xp.searchsorted(self.rows[:, 0], X_new[:, 0], side="right")
        both = xp.concatenate([self.rows, X_new])
        new = xp.arange(len(both)) >= len(self.rows)
        order = xp.lexsort((new, prior.time(both)[:, 0], prior.name(both)))
        return unsorted(order, xp.cumsum(~new[order]))[len(self.rows) :]

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        xp, prior, count = namespace(self.rows, X_new), self.prior, len(self.rows)
        place = self._places(X_new)
        time, name = prior.time(X_new)[:, 0], prior.name(X_new)
        before, after = (self.rows[xp.clip(at, 0, count - 1)] for at in (place - 1, place))
        first = (place == 0) | (prior.name(before) != name)
        last = (place == count) | (prior.name(after) != name)
        since = xp.where(first, 0.0, time - prior.time(before)[:, 0])
        until = xp.where(last, 0.0, prior.time(after)[:, 0] - time)
        at = xp.stack([since, until, time, first.astype(time.dtype), last.astype(time.dtype)])
        seen = xp.broadcast_to(xp.asarray(self.seen)[:, None], (len(self.seen), len(X_new)))
        rows = at, seen, *(xp.moveaxis(a[place], 0, -1) for a in (self.m, self.P, self.r, self.N))
        (mean, var), _ = rowwise.apply(_between, prior.harmonics, prior.kernel, rows)
        return self.mean.at(prior.time(X_new)) + mean, var

    def _among(self, X_new: Array, seen: Array) -> tuple[MarkovGram, Sites, Array]:
        """Append new rows without sites, with `seen` per row; return Gram, sites and places in the order of time."""
        xp = namespace(self.X, X_new, *self.sites)
        none = xp.zeros(X_new.shape[0], self.X.dtype)
        gram = self.prior.gram(xp.concatenate([self.X, X_new]))
        place = gram.places()[self.X.shape[0] :]
        gram = replace(gram, h=put(gram.h, place + 1, gram.h[place + 1] * seen))
        return gram, Sites(*(xp.concatenate([a, none]) for a in self.sites)), place

    def _same_seen(self, rows: int) -> Array:
        """Return `seen` repeated for this number of rows."""
        xp = namespace(self.seen)
        return xp.broadcast_to(xp.asarray(self.seen)[None], (rows, self.seen.shape[0]))

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        mean, cov = self._joint(X_new, self._same_seen(len(X_new)))
        return self.mean.at(self.prior.time(X_new)) + mean, cov

    def _joint(self, X_new: Array, seen: Array) -> tuple[Array, Array]:
        """Return mean and covariance, without the prior mean."""
        gram, sites, place = self._among(X_new, seen)
        q, factor = gram.condition_with_factor(sites, None)
        xp, rows = namespace(q.mean), self.X.shape[0]
        cov = chain_products.block(chain_products.Generators.of(factor), xp.sort(place))
        ranks = xp.argsort(xp.argsort(place))
        return (q.mean - gram.mean)[rows:], cov[ranks][:, ranks]

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run one filter for the rows of all sums, and two sweeps per sum for Σw, without a covariance matrix."""
        flat, weight = X.reshape(-1, X.shape[2]), weight[:, 0]
        gram, sites, place = self._among(flat, self._same_seen(len(flat)))
        q, factor = gram.condition_with_factor(sites, None)
        values = np.asarray(self.mean.at(self.prior.time(flat)) + (q.mean - gram.mean)[len(self.X) :])
        generators, var = chain_products.Generators.of(factor), np.empty(weight.shape[:2])
        places, longer = np.asarray(place).reshape(X.shape[:2]), np.zeros(len(gram.order))
        for s, g in np.ndindex(*var.shape):
            longer[places[g]] = weight[s, g]
            var[s, g] = weight[s, g] @ np.asarray(chain_products.product(generators, longer))[places[g]]
            longer[places[g]] = 0.0
        return np.einsum("sgr,gr->sg", weight, values.reshape(X.shape[:2])), not_negative(var)

    def expansion(self) -> Expansion:
        """Return the posterior of the full GP with the same covariance function."""
        if len(self.X) > MAX_EXPORTED_ROWS:
            raise ValueError(
                f"export holds Markov chains of at most {MAX_EXPORTED_ROWS} rows, and there are {len(self.X)}; use "
                "model.save."
            )
        name = self.prior.series
        kernel = self.kernel if name is None else chains.Series(1 - name, kernel=self.kernel, by=name)
        mean = self.mean
        if isinstance(mean, means.Linear) and name is not None:  # of the column of times
            slope = np.zeros(2)
            slope[1 - name] = np.reshape(mean.slope, ())
            mean = replace(mean, slope=slope)
        return FullPrior(kernel, mean).posterior(self.X, self.sites).expansion()

    def appends(self, X: np.ndarray) -> bool:
        """Return whether these rows come after all rows of a single series, on NumPy arrays."""
        if self.prior.series is not None or not is_host(self.rows):
            return False
        return bool(np.min(X[:, 0]) > self.rows[-1, 0])

    def tail(self, cut: int, X: np.ndarray) -> MarkovTail:
        given = self.rows[max(cut - 1, 0) :]
        whole = self.prior.gram(np.concatenate([given, X]))
        rows = np.concatenate([self.rows[cut:], X])
        if cut == 0:
            return MarkovTail(self, 0, rows, whole, np.zeros_like(whole.h), whole.A[0])
        (A, Q), h = (a[1:].copy() for a in (whole.A, whole.Q)), np.concatenate([whole.h[:1], whole.h[2:]])
        step = A[0].copy()
        A[0], Q[0] = 0.0, step @ self.P[cut] @ step.T + Q[0]
        first, start = np.zeros(len(h)), np.zeros_like(h)
        first[0], start[0] = 1.0, step @ self.m[cut]
        ahead, mean = vector_forward(A, first, start, h)
        gram = MarkovGram(A, Q, h, np.arange(len(rows)), whole.mean[1:] + mean[1:])
        return MarkovTail(self, cut, rows, gram, ahead, step)

    def draw(self, key: Array, X_new: Array, samples: int) -> Array:
        """Draw in O(rows) per draw; if a precision is negative, from the covariance matrix of the new rows."""
        xp = namespace(*self.sites)

        def along() -> Array:
            gram, sites, place = self._among(X_new, self._same_seen(len(X_new)))
            drawn = chain_draws.given_sites(gram.chain, *gram.sorted_sites(sites), key, samples)
            return self.mean.at(self.prior.time(X_new)) + drawn[:, place]

        return cond(xp.any(self.sites.prec < 0), lambda: super(MarkovPosterior, self).draw(key, X_new, samples), along)


@dataclasses.dataclass(frozen=True)
class MarkovTail(Tail):
    """The rows of q from number `cut` on, and new rows X after them, as a separate chain.

    The rows before the cut give the state N(m′, P′) at the last of them.  The chain starts with A P′Aᵀ + Q, around
    means u, which are m′ propagated by A.  `ahead` is u of the states, `step` is A over the cut.
    """

    q: MarkovPosterior
    cut: int
    X: np.ndarray
    gram: MarkovGram
    ahead: np.ndarray
    step: np.ndarray

    def moved(self, factor: Smoothed) -> float:
        """Return the largest change before the cut, from the states on both sides (`numerics.markov.chain_tail`)."""
        if self.cut == 0:
            return 0.0
        q, cut = self.q, self.cut
        return chain_tail.moved(self.step, q.P[cut], factor.r[0], factor.N[0], q.r[cut], q.N[cut])

    def joined(self, sites: Sites, factor: Smoothed) -> MarkovPosterior:
        q, cut = self.q, self.cut
        m, P = filtering.states(self.gram.chain, factor)

        def behind(old: np.ndarray, new: np.ndarray, kept: int) -> np.ndarray:
            return np.concatenate([old[:kept], new])

        rows = behind(q.rows, self.X, cut)
        return replace(
            q,
            X=rows,
            sites=Sites(*(behind(a, b, cut) for a, b in zip(q.sites, sites, strict=True))),
            rows=rows,
            m=behind(q.m, (m + self.ahead)[1:], cut + 1),
            P=behind(q.P, P[1:], cut + 1),
            r=behind(q.r, factor.r, cut),
            N=behind(q.N, factor.N, cut),
        )


def _between(harmonics: int, kernel: Kernel, rows: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[()]]:
    """Return mean, without the prior mean, and variance of f at new times, from the states of the neighbouring rows."""

    def one(at: Array, seen: Array, m: Array, P: Array, r: Array, N: Array) -> tuple[Array, Array]:
        since, until, time, first, last = at
        start, A, Q, h = form(kernel, harmonics, since, time)
        h = seen * h
        m, P = jnp.where(first > 0, 0.0, A @ m), jnp.where(first > 0, start, A @ P @ A.T + Q)
        A = jnp.where(last > 0, 0.0, form(kernel, harmonics, until, time).A)
        a, r, N = P @ h, A.T @ r, A.T @ N @ A
        p = h @ a
        return h @ m + a @ r, jnp.maximum(p - a @ N @ a, jnp.finfo(p.dtype).eps * p)

    mean, var = jax.vmap(one, in_axes=-1)(*rows)
    return (mean.astype(rows[0].dtype), var.astype(rows[0].dtype)), ()
