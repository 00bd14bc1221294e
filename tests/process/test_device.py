import jax
import pytest

from sitewise.process.device import on_accelerator


@pytest.mark.parametrize(("backend", "expected"), [("cpu", False), ("gpu", True), ("tpu", True)])
def test_anything_but_the_processor_is_an_accelerator(
    monkeypatch: pytest.MonkeyPatch, backend: str, expected: bool
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert on_accelerator() is expected
