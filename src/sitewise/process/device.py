"""The device of the computation: the only module that asks JAX for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


def on_accelerator() -> bool:
    """Return whether JAX computes on a device other than the CPU."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None:
        return jax.default_backend() != "cpu"
    return (chosen if isinstance(chosen, str) else chosen.platform) != "cpu"


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Compute on the CPU until the end of the `with` block, also if there is an accelerator."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield
