"""Gaussian expectations by quadrature: the rules that a likelihood accepts, and the integrals computed with them."""

from sitewise.numerics.quadrature.gaussian_rules import (
    GaussHermite,
    Landmark,
    Rule,
    expect,
    log_expect_exp,
    tilted_moments,
)

__all__ = ["GaussHermite", "Landmark", "Rule", "expect", "log_expect_exp", "tilted_moments"]
