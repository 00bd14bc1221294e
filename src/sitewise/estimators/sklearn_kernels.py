"""Translation of scikit-learn's kernels to sitewise.kernels, for error messages."""

from __future__ import annotations

from typing import Any

_SMOOTHNESS = {0.5: "Matern12", 1.5: "Matern32", 2.5: "Matern52"}
_NOISE = "; WhiteKernel is the noise of the likelihood, which needs no kernel"


def advice(kernel: Any) -> str:
    """Return the equivalent kernel of sitewise.kernels; "" without a counterpart or for other objects."""
    if not type(kernel).__module__.startswith("sklearn.gaussian_process"):
        return ""
    own = _translated(kernel)
    noise = _NOISE if "WhiteKernel" in _kinds(kernel) else ""
    if own is None:
        return noise.lstrip("; ")
    return f"here it is {own}{noise}"


def _kinds(kernel: Any) -> set[str]:
    """Return the class names of a kernel and its parts."""
    parts = [_kinds(getattr(kernel, name)) for name in ("k1", "k2") if hasattr(kernel, name)]
    return {type(kernel).__name__}.union(*parts)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(list(value))


def _translated(kernel: Any) -> str | None:
    """Return the kernel as code of this library; None for noise and for kernels without a counterpart."""
    kind = type(kernel).__name__
    if kind in ("Sum", "Product"):
        return _combined(kind, kernel)
    if kind == "ConstantKernel":
        return f"kernels.Constant({_number(kernel.constant_value)})"
    if kind == "DotProduct":
        return f"kernels.Linear() + kernels.Constant({_number(kernel.sigma_0**2)})"
    if kind not in ("RBF", "Matern", "RationalQuadratic", "ExpSineSquared"):
        return None
    length = _number(kernel.length_scale)
    if kind == "Matern":
        return f"kernels.{_SMOOTHNESS.get(kernel.nu, 'Matern52')}({length})"
    if kind == "RationalQuadratic":
        return f"kernels.RationalQuadratic({length}, mixture={_number(kernel.alpha)})"
    if kind == "ExpSineSquared":
        return f"kernels.Periodic({length}, {_number(kernel.periodicity)})"
    return f"kernels.RBF({length})"


def _combined(kind: str, kernel: Any) -> str | None:
    both = [kernel.k1, kernel.k2]
    if kind == "Product":  # a constant factor is a number here
        factors = [_number(k.constant_value) for k in both if type(k).__name__ == "ConstantKernel"]
        others = [_translated(k) for k in both if type(k).__name__ != "ConstantKernel"]
        shown = factors + [f"({o})" if o and " + " in o else o for o in others]
        return " * ".join(shown) if all(shown) and others else None  # type: ignore[arg-type]
    terms = [t for t in map(_translated, both) if t]
    return " + ".join(terms) or None
