from collections.abc import Callable
from typing import Any

def replaced(
    functions: dict[str, Any],
    dress: Callable[[Any], Any],
    refuse: Callable[[str, Any], None],
    /,
) -> dict[str, Any]: ...
