"""The actions of the parts of the package when a job is reset, loses ranks, or ends."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Action = Callable[[], None]

_on_reset: list[Action] = []
_on_refresh: list[Action] = []
_on_close: list[Action] = []
_on_end: list[Action] = []


def on_reset(action: Action) -> Action:
    """Have `action` called when `reset` ends all addresses."""
    _on_reset.append(action)
    return action


def on_refresh(action: Action) -> Action:
    """Have `action` called when this process has accepted the living members."""
    _on_refresh.append(action)
    return action


def on_end(action: Action) -> Action:
    """Have `action` called when this process begins to end its job, and all still works."""
    _on_end.append(action)
    return action


def on_close(action: Action) -> Action:
    """Have `action` called when the job ends for this process."""
    _on_close.append(action)
    return action


def reset() -> None:
    """Call what was registered for a reset, the last first."""
    for action in reversed(_on_reset):
        action()


def refresh() -> None:
    """Call what was registered for a change of the ranks, the last first."""
    for action in reversed(_on_refresh):
        action()


def end() -> None:
    """Call what was registered for the begin of the end, the last first."""
    for action in reversed(_on_end):
        action()


def close() -> None:
    """Call what was registered for the end, the last first."""
    for action in reversed(_on_close):
        action()
