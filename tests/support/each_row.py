"""Tables whose rows are quick: one test goes through all of them. To collect, start and report a test takes longer."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

Test = Callable[..., None]


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Call the test with each row, as `pytest.mark.parametrize` does in as many tests. A row that fails is named, and
    the rows after it are not tried. Fixtures are made once for all rows.

    Raises ValueError where there are no rows: nothing would be tested.
    """
    table = list(rows)
    if not table:
        raise ValueError(f"expected rows for {names}; there are none")

    def decorate(test: Test) -> Test:
        @wraps(test)
        def all_rows(*args: Any, **fixtures: Any) -> None:
            for row in table:
                values = {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))
                try:
                    test(*args, **fixtures, **values)
                except BaseException as error:
                    error.add_note(f"in the row {values!r:.1000}")
                    raise

        signature = inspect.signature(test)
        named = (names,) if isinstance(names, str) else names
        fixtures = [each for each in signature.parameters.values() if each.name not in named]
        setattr(all_rows, "__signature__", signature.replace(parameters=fixtures))  # noqa: B010  (unknown to mypy)
        return all_rows

    return decorate
