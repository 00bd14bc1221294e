"""Which device runs the computation: no other module asks JAX."""

from __future__ import annotations

import jax


def on_accelerator() -> bool:
    """Whether JAX runs on something other than the processor."""
    return jax.default_backend() != "cpu"
