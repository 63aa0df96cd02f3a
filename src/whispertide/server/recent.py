"""What a server remembers of its clients. Knows nothing of what that is."""

from collections import OrderedDict
from typing import TypeVar

MOST = 10_000

Name = TypeVar("Name")
Value = TypeVar("Value")


class Recent(OrderedDict[Name, Value]):
    """The `MOST` values that were set last: beyond it the one that was set longest ago is forgotten."""

    def __setitem__(self, name: Name, value: Value) -> None:
        super().__setitem__(name, value)
        self.move_to_end(name)
        if len(self) > MOST:
            self.popitem(last=False)
