"""Compute Gaussian expectations of every likelihood in 24-digit arithmetic, the reference of `quadrature_table`.

The densities are written here a second time, with mpmath's own special functions; sitewise is not imported.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from mpmath import mp, mpf

DIGITS = 24
_SMALL = mpf(10) ** -14  # relative error at which a panel is accepted

_log_gamma = functools.lru_cache(mp.loggamma)
_log = functools.lru_cache(mp.log)
_two_pi = functools.lru_cache(lambda: mp.log(2 * mp.pi) / 2)

_NEGLIGIBLE_DEPTH = 1e4  # nats below 1: exp(−1e4) is zero, and mpmath would compute exp(−exp(1e5)) for seconds

LogProb = Callable[[Sequence[float], mpf], mpf]


def _exp(x: mpf) -> mpf:
    return mp.exp(x) if x > -_NEGLIGIBLE_DEPTH else mpf(0)


def _softplus(f: mpf) -> mpf:
    return max(f, mpf(0)) + mp.log1p(mp.exp(-abs(f)))


def _log_cdf(z: mpf) -> mpf:
    return mp.log(mp.erfc(-z / mp.sqrt(2)) / 2) if z < 0 else mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)


def _log_interval(low: float, high: float, f: mpf, scale: float) -> mpf:
    if low == -mp.inf:
        return _log_cdf((high - f) / scale)
    if high == mp.inf:
        return _log_cdf((f - low) / scale)
    a, b = (low - f) / (scale * mp.sqrt(2)), (high - f) / (scale * mp.sqrt(2))
    if a < 0 < b:
        return mp.log1p(-(mp.erfc(-a) + mp.erfc(b)) / 2)
    if a + b > 0:
        a, b = -b, -a
    return mp.log((mp.erfc(-b) - mp.erfc(-a)) / 2)  # in the left tail: no cancellation


def gaussian(scale: float) -> LogProb:
    return lambda y, f: -(((y[0] - f) / scale) ** 2) / 2 - _two_pi() - _log(scale)


def heteroscedastic() -> LogProb:
    return lambda y, f: gaussian(mp.sqrt(y[1]))(y, f)


def log_normal(scale: float) -> LogProb:
    return lambda y, f: gaussian(scale)([_log(y[0])], f) - _log(y[0])


def laplace_noise(scale: float) -> LogProb:
    return lambda y, f: -abs(y[0] - f) / scale - _log(2 * mpf(scale))


def student_t(scale: float, df: float) -> LogProb:
    norm = mp.loggamma((mpf(df) + 1) / 2) - mp.loggamma(mpf(df) / 2) - mp.log(mp.pi * df) / 2 - mp.log(scale)
    return lambda y, f: norm - (mpf(df) + 1) / 2 * mp.log1p(((y[0] - f) / scale) ** 2 / df)


def censored(scale: float) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        return gaussian(scale)(y, f) if y[0] == y[1] else _log_interval(y[0], y[1], f, scale)

    return log_prob


def ordinal(cuts: Sequence[float]) -> LogProb:
    ends = [-mp.inf, *cuts, mp.inf]
    return lambda y, f: _log_interval(ends[int(y[0])], ends[int(y[0]) + 1], f, 1.0)


def bernoulli(link: str) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        f = f if y[0] > 0 else -f
        return _log_cdf(f) if link == "probit" else -_softplus(-f)

    return log_prob


def binomial(link: str) -> LogProb:
    one = bernoulli(link)

    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        k, n = y
        choose = _log_gamma(n + 1) - _log_gamma(k + 1) - _log_gamma(n - k + 1)
        return choose + k * one([1.0], f) + (n - k) * one([0.0], f)

    return log_prob


def _log_mean(link: str, y: Sequence[float], f: mpf) -> mpf:
    log_rate = f if link == "log" else (mp.log(_softplus(f)) if f > -60 else f)
    return log_rate + (_log(y[1]) if len(y) > 1 else 0)


def poisson(link: str) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        log_mean = _log_mean(link, y, f)
        return y[0] * log_mean - mp.exp(log_mean) - _log_gamma(y[0] + 1)

    return log_prob


def negative_binomial(shape: float, link: str) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        z = _log_mean(link, y, f) - _log(shape)
        choose = _log_gamma(y[0] + shape) - _log_gamma(shape) - _log_gamma(y[0] + 1)
        return choose + y[0] * z - (y[0] + shape) * _softplus(z)

    return log_prob


def gamma(shape: float) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        constant = shape * _log(shape) + (shape - 1) * _log(y[0]) - _log_gamma(shape)
        return constant - shape * (f + y[0] * mp.exp(-f))

    return log_prob


def beta(precision: float) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        a, b = precision * mp.exp(-_softplus(-f)), precision * mp.exp(-_softplus(f))
        norm = _log_gamma(precision) - mp.loggamma(a) - mp.loggamma(b)
        return norm + (a - 1) * _log(y[0]) + (b - 1) * _log(1 - mpf(y[0]))

    return log_prob


def beta_binomial(precision: float) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        (k, n), a, b = y, precision * mp.exp(-_softplus(-f)), precision * mp.exp(-_softplus(f))
        choose = _log_gamma(n + 1) - _log_gamma(k + 1) - _log_gamma(n - k + 1)
        whole = _log_gamma(precision) - _log_gamma(n + precision)
        return choose + whole + _log_rising(a, int(k)) + _log_rising(b, int(n - k))

    return log_prob


def _log_rising(a: mpf, count: int) -> mpf:
    """log Γ(a + count)/Γ(a) = Σ log(a + i), without cancellation for small a."""
    return sum((mp.log(a + i) for i in range(count)), mpf(0))


def asymmetric_laplace(scale: float, quantile: float) -> LogProb:
    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        d = y[0] - f
        return mp.log(mpf(quantile) * (1 - mpf(quantile)) / scale) - d * (quantile - (d < 0)) / scale

    return log_prob


def _lifetime(
    shape: float, log_density: Callable[[mpf], mpf], log_survival: Callable[[mpf], mpf], log_cdf: Callable[[mpf], mpf]
) -> LogProb:
    """Lifetimes with log T = f + u/shape; y is the lifetime, or its limits low and high."""

    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        low, high = y[0], y[-1]
        if low == high:
            return log_density(shape * (_log(low) - f)) + _log(shape) - _log(low)
        if high == mp.inf:
            return log_survival(shape * (_log(low) - f))
        upper = shape * (_log(high) - f)
        if low <= 0:
            return log_cdf(upper)
        first, second = log_survival(shape * (_log(low) - f)), log_survival(upper)
        return first + _log1m_exp(second - first)

    return log_prob


def _log1m_exp(x: mpf) -> mpf:
    """log(1 − eˣ) for x < 0."""
    return mp.log(-mp.expm1(x)) if x > -_NEGLIGIBLE_DEPTH else mpf(0)


def weibull(shape: float) -> LogProb:
    def log_cdf(u: mpf) -> mpf:
        return _log1m_exp(-mp.exp(u))

    return _lifetime(shape, lambda u: u - mp.exp(u), lambda u: -mp.exp(u), log_cdf)


def log_logistic(shape: float) -> LogProb:
    return _lifetime(shape, lambda u: -_softplus(u) - _softplus(-u), lambda u: -_softplus(u), lambda u: -_softplus(-u))


def hurdle_gamma(shape: float, intercept: float, slope: float) -> LogProb:
    amount = gamma(shape)

    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        odds = intercept + slope * f
        return -_softplus(odds) if y[0] == 0 else amount(y, f) - _softplus(-odds)

    return log_prob


def tweedie(dispersion: float, power: float) -> LogProb:
    p, phi = mpf(power), mpf(dispersion)

    @functools.lru_cache
    def log_base(y: float) -> mpf:
        alpha = (2 - p) / (p - 1)
        log_z = alpha * mp.log(y) - mp.log(phi * (2 - p)) - alpha * mp.log(phi * (p - 1))
        terms = (mp.exp(j * log_z - mp.loggamma(j + 1) - mp.loggamma(j * alpha)) for j in range(1, 400))
        return mp.log(mp.fsum(terms)) - mp.log(y)

    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        with_f = -(y[0] * mp.exp((1 - p) * f) / (p - 1) + mp.exp((2 - p) * f) / (2 - p)) / phi
        return with_f + log_base(y[0]) if y[0] > 0 else with_f

    return log_prob


def switched(parts: Sequence[LogProb]) -> LogProb:
    """y holds the value, the number of the part, and the side information of the part."""
    return lambda y, f: parts[int(y[1])]([y[0], *y[2:]], f)


class VonMises:
    """The von Mises density; for variances from `SERIES_VARIANCE` on, expectations by their Fourier series."""

    SERIES_VARIANCE = 0.1
    SERIES_DIGITS = 80

    def __init__(self, concentration: float) -> None:
        self._kappa = mpf(concentration)

    def _log_norm(self) -> mpf:
        return mp.log(2 * mp.pi) + mp.log(mp.besseli(0, self._kappa))

    def __call__(self, y: Sequence[float], f: mpf) -> mpf:
        return self._kappa * mp.cos(y[0] - f) - self._log_norm()

    def by_series(self, y: float, mean: float, var: float) -> tuple[float, float, float]:
        """E[log p], log E[p] and log E[√p] by E[exp(κ cos(y − f))] = Σ_n I_n(κ) e^(−n²v/2) cos n(y − m)."""
        with mp.workdps(self.SERIES_DIGITS):
            d, v = mpf(y) - mpf(mean), mpf(var)
            logs = []
            for power in (1, mpf(1) / 2):
                kappa, total, n = power * self._kappa, mpf(0), 0
                while True:
                    size = mp.besseli(n, kappa) * mp.exp(-n * n * v / 2)
                    total += (1 if n == 0 else 2) * size * mp.cos(n * d)
                    if size < abs(total) * mpf(10) ** -30:
                        break
                    n += 1
                logs.append(float(mp.log(total) - power * self._log_norm()))
            return float(self._kappa * mp.exp(-v / 2) * mp.cos(d) - self._log_norm()), logs[0], logs[1]


def zero_inflated(share: float, count: LogProb) -> LogProb:
    """A count that is 0 with probability `share`, else from the distribution `count`."""

    def log_prob(y: Sequence[float], f: mpf) -> mpf:
        return mp.log(share + (1 - share) * mp.exp(count(y, f))) if y[0] == 0 else mp.log(1 - share) + count(y, f)

    return log_prob


def square(scale: float) -> LogProb:
    """A user's likelihood with two modes: y = f² + N(0, scale²)."""
    return lambda y, f: gaussian(scale)(y, f * f)


# -- integrals ------------------------------------------------------------------------------------------


def _rule(points: int) -> list[tuple[mpf, mpf]]:
    """Gauss–Legendre on [−1, 1]."""
    out = []
    for i in range(1, points + 1):
        x = mp.cos(mp.pi * (i - mpf(1) / 4) / (points + mpf(1) / 2))
        for _ in range(100):
            p0, p1 = mpf(1), x
            for k in range(2, points + 1):
                p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
            slope = points * (x * p1 - p0) / (x * x - 1)
            step = p1 / slope
            x -= step
            if abs(step) < mpf(10) ** -(DIGITS - 3):
                break
        out.append((x, 2 / ((1 - x * x) * slope**2)))
    return out


class Reference:
    """E[log p], log E[p] and log E[√p] under N(mean, var), by panels that are halved until two rules agree."""

    def __init__(self, log_prob: LogProb, y: Sequence[float], centre: float, width: float) -> None:
        mp.dps = DIGITS
        self._log_prob = lambda f: log_prob(y, f)
        self._centre, self._width = mpf(centre), mpf(width)
        self._rough, self._fine = _rule(8), _rule(14)

    def __call__(self, mean: float, var: float) -> tuple[float, float, float]:
        m, v = mpf(mean), mpf(var)
        edges = self._edges(m, mp.sqrt(v))
        tops = []
        for power in (1, 0.5):
            mode, top = _mode(lambda f, power=power: power * self._log_prob(f) - (f - m) ** 2 / (2 * v), edges)
            edges += [mode + sign * mp.sqrt(v) / mpf(8) ** k for k in range(7) for sign in (-1, 1)] + [mode]
            tops.append(top)

        def integrands(f: mpf) -> tuple[mpf, mpf, mpf]:
            log_p, fall = self._log_prob(f), (f - m) ** 2 / (2 * v)
            return log_p * mp.exp(-fall), _exp(log_p - fall - tops[0]), _exp(log_p / 2 - fall - tops[1])

        # An error of E[log p] counts relative to 1 where the value itself is smaller.
        first, whole, half = self._integrals(integrands, sorted(set(edges)), mp.sqrt(v))
        log_norm = mp.log(2 * mp.pi * v) / 2
        logs = (float(mp.log(total) + top - log_norm) for total, top in zip((whole, half), tops, strict=True))
        if self._rises(m, v):
            return float("inf"), *logs
        return float(first * mp.exp(-log_norm)), *logs

    def _rises(self, m: mpf, v: mpf) -> bool:
        """Whether N·log p still rises at the last edge, where E[eᶠ] has its mass under the widest Gaussians."""
        for sign in (-1, 1):
            near, last = (abs(self._log_prob(m + sign * k * mp.sqrt(v))) * mp.exp(-(mpf(k) ** 2) / 2) for k in (60, 70))
            if last > near:
                return True
        return False

    def _edges(self, m: mpf, sd: mpf) -> list[mpf]:
        """Geometric around the centre, and at a few deviations around the mean."""
        edges = [m, self._centre] + [m + sign * sd * k for k in (1, 3, 6, 12, 30, 70) for sign in (-1, 1)]
        edges += [self._centre + sign * self._width * mpf(8) ** k for k in range(-1, 10) for sign in (-1, 1)]
        return sorted(e for e in edges if abs(e - m) <= 70 * sd)

    def _integrals(self, integrands: Callable[[mpf], tuple[mpf, ...]], edges: list[mpf], least: mpf) -> list[mpf]:
        def panel(rule: list[tuple[mpf, mpf]], a: mpf, b: mpf) -> list[mpf]:
            middle, half = (a + b) / 2, (b - a) / 2
            values = [integrands(middle + half * x) for x, _ in rule]
            return [half * mp.fdot((w, value[k]) for (_, w), value in zip(rule, values, strict=True)) for k in range(3)]

        todo = [(a, b, panel(self._rough, a, b)) for a, b in itertools.pairwise(edges)]
        sizes = [sum(abs(rough[k]) for *_, rough in todo) for k in range(3)]
        sizes[0] = max(sizes[0], least)
        totals = [mpf(0)] * 3
        while todo:
            a, b, rough = todo.pop()
            if all(abs(rough[k]) <= sizes[k] * _SMALL**2 for k in range(3)):
                continue
            fine = panel(self._fine, a, b)
            if all(abs(fine[k] - rough[k]) <= sizes[k] * _SMALL for k in range(3)):
                totals = [total + part for total, part in zip(totals, fine, strict=True)]
                continue
            sizes = [max(size, abs(part)) for size, part in zip(sizes, fine, strict=True)]
            middle = (a + b) / 2
            todo += [(a, middle, panel(self._rough, a, middle)), (middle, b, panel(self._rough, middle, b))]
        return totals


def _mode(height: Callable[[mpf], mpf], edges: list[mpf]) -> tuple[mpf, mpf]:
    """The highest point next to the best edge, by golden section."""
    heights = [height(e) for e in edges]
    best = max(range(len(edges)), key=heights.__getitem__)
    low, high = edges[max(best - 1, 0)], edges[min(best + 1, len(edges) - 1)]
    inner = (3 - mp.sqrt(5)) / 2
    a, b = low + inner * (high - low), high - inner * (high - low)
    ha, hb = height(a), height(b)
    for _ in range(25):
        if ha > hb:
            high, b, hb = b, a, ha
            a = low + inner * (high - low)
            ha = height(a)
        else:
            low, a, ha = a, b, hb
            b = high - inner * (high - low)
            hb = height(b)
    return (a, ha) if ha > heights[best] else (edges[best], heights[best])
