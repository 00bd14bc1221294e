"""Gaussian expectations by quadrature: the rules that a likelihood may be given, and what they compute."""

from sitewise.numerics.quadrature.gaussian_rules import (
    GaussHermite,
    Landmark,
    Rule,
    expect,
    log_expect_exp,
    tilted_moments,
)

__all__ = ["GaussHermite", "Landmark", "Rule", "expect", "log_expect_exp", "tilted_moments"]
