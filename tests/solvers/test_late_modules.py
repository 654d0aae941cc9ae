"""Late modules: loaded by the first name that is asked of them, and then like any other."""

import sys

import pytest

from peewit.solvers.late_modules import LateModule


def test_a_module_loads_with_the_first_name_that_is_asked_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    late = LateModule("colorsys")
    assert "colorsys" not in sys.modules
    assert late.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert late.rgb_to_hsv is sys.modules["colorsys"].rgb_to_hsv


def test_a_name_that_a_module_has_not_is_refused() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = LateModule("colorsys").no_such_name
