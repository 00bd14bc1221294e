"""Hyperparameters by name and as one unconstrained vector: fixed, trained and tied parameters, bounds and priors.

A parameter is a field declared by `positive`, `real`, `bounded`, `simplex` or `ordered`.  Its name is the path to the
field, as in `kernel.lengthscale`, `kernel.parts.0.variance`, `likelihood.scale`, `mean.value`.  `supports` has the maps
to unconstrained numbers: positive parameters are trained on a log scale, or through softplus as in the published
procedure.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import inspect
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.hyperpriors import KINDS, HyperPrior
from sitewise.supports import POSITIVE_BOUNDS, Positive, Real, Support
from sitewise.types import replace

T = TypeVar("T")
Groups = Sequence[str | Sequence[str]]  # groups of tied parameters, each by names or patterns


@dataclasses.dataclass(frozen=True, repr=False)
class Parameter:
    """A parameter of a model.

    Parameters
    ----------
    name : str
        The path, such as "kernel.lengthscale".
    support : Support
        The set of its possible values.
    shape : tuple of int
        The shape of its values; `raw_shape` is the shape of its unconstrained numbers.
    train : bool
        Whether it is trained by default.
    prior : HyperPrior, default=None
        Its default prior.
    """

    name: str
    support: Support
    shape: tuple[int, ...]
    train: bool
    prior: HyperPrior | None = None  # default prior

    def __repr__(self) -> str:
        notes = [
            repr(self.support),
            *([f"shape {self.shape}"] if self.shape else []),
            *([] if self.train else ["held fixed"]),
        ]
        return f"<{self.name}: {', '.join(notes)}>"

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @functools.cached_property
    def raw_shape(self) -> tuple[int, ...]:
        return self.support.raw_shape(self.shape)

    @functools.cached_property
    def raw_size(self) -> int:
        return int(np.prod(self.raw_shape, dtype=int))


def _children(obj: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    if isinstance(obj, tuple):
        yield from ((str(i), part, {}) for i, part in enumerate(obj))
    else:
        yield from ((name, getattr(obj, name), metadata) for name, metadata in _fields(obj.__class__))


@functools.cache
def _fields(kind: Hashable) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return names and metadata of the fields that are not static."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return ()
    return tuple((f.name, f.metadata) for f in dataclasses.fields(kind) if not f.metadata.get("static"))


def _join(prefix: str, name: str) -> str:
    # Names omit the field `prior` of a model: "kernel.variance", not "prior.kernel.variance".
    if name == "prior" and not prefix:
        return ""
    return f"{prefix}.{name}" if prefix else name


def walk(obj: Any, prefix: str = "") -> Iterator[tuple[Parameter, Any]]:
    """Yield every parameter of `obj` and of its fields with its value; fields that are None are skipped."""
    for name, value, metadata in _children(obj):
        path = _join(prefix, name)
        if value is not None and "support" in metadata:
            train = metadata.get("train", True)
            prior = metadata.get("prior")
            yield Parameter(path, metadata["support"], tuple(np.shape(value)), train, prior), value
        else:
            yield from walk(value, path)


def values(obj: Any) -> dict[str, np.ndarray]:
    """Return the values of all parameters by name.

    Parameters
    ----------
    obj : Model, Kernel, Likelihood or Mean
        An object with parameters.
    """
    return {p.name: np.asarray(v) for p, v in walk(obj)}


def with_values(obj: Any, new: Mapping[str, Any]) -> Any:
    """Return `obj` with new values of some parameters; works under a JAX trace.

    Parameters
    ----------
    obj : Model, Kernel, Likelihood or Mean
        An object with parameters.
    new : dict
        Name → value.
    """
    names = [p.name for p, _ in walk(obj)]
    unknown = [name for name in new if name not in names]
    if unknown:
        raise ValueError(f"There is no parameter {unknown[0]!r}; there are {', '.join(names)}.")
    return _with_values(obj, new)


def _with_values(obj: Any, new: Mapping[str, Any], prefix: str = "") -> Any:
    if isinstance(obj, tuple):
        return tuple(_with_values(part, new, _join(prefix, str(i))) for i, part in enumerate(obj))
    changes = {}
    for name, value, metadata in _children(obj):
        path = _join(prefix, name)
        if "support" in metadata:
            if path in new:
                changes[name] = new[path]
        elif isinstance(value, tuple) or dataclasses.is_dataclass(value):
            changes[name] = _with_values(value, new, path)
    return replace(obj, **changes) if changes else obj


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name equals or matches one of the patterns, as in `kernel.*`."""
    return any(isinstance(pattern, str) and fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@dataclasses.dataclass(frozen=True)
class Trainable:
    """The trained parameters and their map to one unconstrained vector; hashable, to serve as a compilation key.

    Parameters
    ----------
    parameters : tuple of Parameter
        The trained parameters, with the first parameter of each tied group.
    tied : tuple, default=()
        Groups of names that share one value.
    """

    parameters: tuple[Parameter, ...]
    tied: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(
        model: Any,
        fixed: Iterable[str] = (),
        train: Iterable[str] = (),
        transform: str = "log",
        tied: Groups = (),
    ) -> Trainable:
        """Select the trained parameters of a model.

        `fixed` names parameters to hold fixed; `train` names parameters to train that are held fixed by default, such
        as a Student-t's df.  Names may be patterns: `kernel.*`.  `tied` has groups of parameters that share one value,
        which starts at the value of the first.  A group is a list of names or patterns, or one pattern.  `transform` is
        the transform of positive parameters.
        """
        known = [p for p, _ in walk(model)]
        fixed, train = ((names,) if isinstance(names, str) else tuple(names) for names in (fixed, train))
        for pattern in fixed + train:
            _parameters_named(known, pattern)
        chosen = [p for p in known if (p.train or matches(p.name, train)) and not matches(p.name, fixed)]
        groups = _tied_groups(known, chosen, tied)
        later = {name for group in groups for name in group[1:]}
        support = Positive(transform)
        return Trainable(
            tuple(
                dataclasses.replace(p, support=support) if isinstance(p.support, Positive) else p
                for p in chosen
                if p.name not in later
            ),
            groups,
        )

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(p.raw_size for p in self.parameters)

    @property
    def labels(self) -> list[str]:
        """One name per entry of the vector."""
        return [label for p in self.parameters for label in p.support.labels(p.name, p.shape)]

    @property
    def names(self) -> list[str]:
        """Names of all trained parameters, including every member of tied groups."""
        return [name for p in self.parameters for name in self._group(p)]

    def _group(self, p: Parameter) -> tuple[str, ...]:
        return next((group for group in self.tied if group[0] == p.name), (p.name,))

    def _by_parameter(self, what: str, given: Mapping[str, T]) -> dict[str, T]:
        """Resolve `given`, bounds or priors by name or pattern, to parameter names; exact names override patterns."""
        if not isinstance(given, Mapping):
            raise ValueError(
                f"Give each {what} under the name of its parameter, as in {{name: {what}}}, got {given!r}."
            )
        for pattern in given:
            if not any(matches(name, [pattern]) for name in self.names):
                raise ValueError(
                    f"There is no trained parameter {pattern!r} for this {what}; the trained parameters are "
                    f"{', '.join(self.names)}."
                )
        found = {}
        for p in self.parameters:
            group = self._group(p)
            keys = [key for key in given if key in group]
            keys = keys or [key for key in given if any(matches(name, [key]) for name in group)]
            if len(keys) > 1:
                raise ValueError(
                    f"{p.name} gets a {what} from each of {' and '.join(map(repr, keys))}; keep only one, or give a "
                    f"{what} for the exact name."
                )
            if keys:
                found[p.name] = given[keys[0]]
        return found

    def limits(
        self,
        bounds: Mapping[str, tuple[float, float]],
        least: Mapping[str, float] | None = None,
        units: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    ) -> np.ndarray:
        """Return (low, high) per entry of the vector, from `bounds` by name or pattern, in units of the parameters.

        `least` has lower limits by name, which also apply where the bounds are lower.  `units` has the smallest and the
        largest unit of positive parameters by name (`kernels.units`): their default bounds are in these units.
        """
        given = self._by_parameter("bound", bounds)
        pairs = [p.support.limits(p.name, p.shape, given.get(p.name)) for p in self.parameters]
        for k, p in enumerate(self.parameters):
            own = [units[name] for name in self._group(p) if units and name in units]
            if own and p.name not in given and isinstance(p.support, Positive):
                low = POSITIVE_BOUNDS[0] * np.min([np.broadcast_to(pair[0], p.shape) for pair in own], axis=0)
                high = POSITIVE_BOUNDS[1] * np.max([np.broadcast_to(pair[1], p.shape) for pair in own], axis=0)
                pairs[k] = np.stack([np.ravel(p.support.forward(np.asarray(end))) for end in (low, high)], axis=1)
        for p, pair in zip(self.parameters, pairs, strict=True):
            for low in ((least or {}).get(name) for name in self._group(p)):
                if low is not None:
                    pair[:, 0] = np.maximum(pair[:, 0], np.ravel(p.support.forward(np.full(p.shape, low))))
        return np.concatenate(pairs) if pairs else np.zeros((0, 2))

    def at_bound(self, vector: np.ndarray, limits: np.ndarray) -> tuple[str, ...]:
        """Return the labels of entries at a limit, or at an end of their support."""
        near = np.any(np.abs(vector[:, None] - limits) < 1e-6, axis=1)
        ends = [np.ravel(p.support.at_end(raw)) for p, raw in self._parts(vector)]
        near |= np.concatenate([*ends, np.zeros(0, bool)])
        return tuple(label for label, hit in zip(self.labels, near, strict=True) if hit)

    def priors(self, given: Mapping[str, HyperPrior]) -> tuple[tuple[str, HyperPrior], ...]:
        """Return (name, prior) pairs, from priors by name or pattern; hashable, to serve as a compilation key."""
        defaults = {p.name: p.prior for p in self.parameters if p.prior is not None}
        found = defaults | self._by_parameter("prior", given)
        for name, prior in found.items():
            density = getattr(prior, "log_prob", None)
            if isinstance(prior, type) or density is None or len(inspect.signature(density).parameters) != 1:
                raise ValueError(f"The prior of {name!r} must be an object such as LogNormal(0, 1), got {prior!r}.")
        return tuple(sorted(found.items(), key=lambda pair: pair[0]))

    def _parts(self, vector: Array) -> Iterator[tuple[Parameter, Array]]:
        """Yield each parameter with its entries of the vector."""
        at = 0
        for p in self.parameters:
            yield p, vector[at : at + p.raw_size].reshape(p.raw_shape)
            at += p.raw_size

    def to_vector(self, model: Any) -> Array:
        found = {p.name: v for p, v in walk(model)}
        xp = namespace(*found.values())
        parts = [xp.ravel(p.support.forward(xp.asarray(found[p.name]))) for p in self.parameters]
        return xp.concatenate(parts) if parts else xp.zeros(0)

    def constrained(self, vector: Array) -> dict[str, Array]:
        """Return the parameter values of `vector` by name."""
        found = ((p, p.support.backward(raw)) for p, raw in self._parts(vector))
        return {name: value for p, value in found for name in self._group(p)}

    def from_vector(self, model: Any, vector: Array) -> Any:
        return _with_values(model, self.constrained(vector))

    def pull(self, vector: Array, bar: Any) -> Array:
        """Return the cotangent of the vector, given the cotangent `bar` of the model of `from_vector`."""
        xp, found = namespace(vector), {p.name: v for p, v in walk(bar)}
        out = []
        for p, raw in self._parts(vector):
            whole = sum(xp.reshape(found[name], p.shape) for name in self._group(p))
            out.append(xp.ravel(p.support.pull(raw, whole)))
        return xp.concatenate(out) if out else xp.zeros_like(vector)

    def log_prior_with_slope(
        self, vector: np.ndarray, priors: Iterable[tuple[str, HyperPrior]], jacobian: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return Σ log p(θ), or with `jacobian` the log density of the vector, and its gradient, on NumPy arrays.

        None if a prior is not one of `hyperpriors`, or a parameter is neither real nor positive on a log scale.
        """
        given, total, slopes = dict(priors), np.zeros(()), [np.zeros(0)]
        for p, raw in self._parts(vector):
            if p.support not in (Real(), Positive()):
                return None
            slope = np.zeros_like(raw)
            if p.name in given:
                prior, value = given[p.name], p.support.backward(raw)
                if type(prior) not in KINDS:
                    return None
                total = total + np.sum(prior.log_prob(value))
                slope = p.support.pull(raw, prior.slope(value))  # type: ignore[attr-defined]
                if jacobian:
                    total = total + p.support.log_volume(raw)
                    slope = slope + float(isinstance(p.support, Positive))  # log |∂θ/∂r| = r
            slopes.append(np.ravel(slope))
        return total, np.concatenate(slopes)

    def log_prior(self, vector: Array, priors: Iterable[tuple[str, HyperPrior]]) -> Array:
        """Return the log density of the *vector*, log p(θ) + log |∂θ/∂vector|, up to a constant.

        Parameters without a prior are uniform; positive parameters without a prior are log-uniform.
        """
        xp, given = namespace(vector), dict(priors)
        total = xp.zeros((), vector.dtype)
        for p, raw in self._parts(vector):
            if p.name in given:
                value = p.support.backward(raw)
                total += xp.sum(given[p.name].log_prob(value)) + p.support.log_volume(raw)
            else:
                total += p.support.log_flat(raw)
        return total


def _parameters_named(known: Sequence[Parameter], pattern: str) -> list[Parameter]:
    """Return the parameters of this name or pattern; raise ValueError if there are none."""
    found = [p for p in known if matches(p.name, [pattern])]
    if not found:
        raise ValueError(f"There is no parameter {pattern!r}; this model has {', '.join(p.name for p in known)}.")
    return found


def _tied_groups(known: Sequence[Parameter], trained: Sequence[Parameter], tied: Groups) -> tuple[tuple[str, ...], ...]:
    """Return the names of each group of tied parameters, after checks."""
    out: list[tuple[str, ...]] = []
    for given in tied:
        patterns = (given,) if isinstance(given, str) else tuple(given)
        group = list(dict.fromkeys(p for pattern in patterns for p in _parameters_named(known, pattern)))
        names = tuple(p.name for p in group)
        shown = ", ".join(names)
        if len(group) < 2:
            raise ValueError(f"Tie at least two parameters per group, as in tied=((name, name),); got {given!r}.")
        if len({(p.support, p.shape) for p in group}) > 1:
            raise ValueError(
                f"Tied parameters must have the same shape and take the same values, but these differ: "
                f"{_described(group)}."
            )
        held = [p.name for p in group if p not in trained]
        if held:
            raise ValueError(f"{shown} are tied, but {', '.join(held)} is held fixed; tie trained parameters only.")
        twice = {name for other in out for name in other} & set(names)
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} is in two groups of tied parameters; merge these groups.")
        out.append(names)
    return tuple(out)


def _described(group: Sequence[Parameter]) -> str:
    return ", ".join(f"{p.name} ({p.support!r}, shape {p.shape})" for p in group)
