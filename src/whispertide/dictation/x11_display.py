"""The connection to an X11 display, through libxcb (the package xcffib, loaded on first use)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whispertide.dictation.x11_layout import Layout
from whispertide.errors import KeyboardError


def connect(display: str | None = None) -> Any:
    """Connect to a display, or to the one that DISPLAY names. Raises `KeyboardError` if there is none that answers."""
    try:
        import xcffib
        import xcffib.xinput
        import xcffib.xkb
        import xcffib.xproto
        import xcffib.xtest
    except OSError as error:
        raise KeyboardError(
            f"expected libxcb, the library of X11 ({error}); install it: Debian and Ubuntu "
            '"apt install libxcb1", Fedora "dnf install libxcb"'
        ) from error
    try:
        connection = xcffib.connect(display)
        connection(xcffib.xtest.key).GetVersion(2, 2).reply()
        connection(xcffib.xkb.key).UseExtension(1, 0).reply()
    except (xcffib.XcffibException, xcffib.ConnectionException) as error:
        raise KeyboardError(
            f"expected an X11 display with the extensions XTEST and XKEYBOARD; DISPLAY cannot be used ({error!r}): "
            "check that it names a session of yours"
        ) from error
    return connection


@contextmanager
def talking() -> Iterator[None]:
    """Turn an error of the connection into a `KeyboardError`."""
    import xcffib

    try:
        yield
    except (xcffib.XcffibException, xcffib.ConnectionException) as error:
        raise KeyboardError(f"the X11 display is gone, or refuses to type: {error!r}") from error


def read_layout(connection: Any, device: int | None = None) -> Layout:
    """The symbols of all keys of a device; None: of the keyboard that was used last."""
    import xcffib.xinput

    first, last = connection.setup.min_keycode, connection.setup.max_keycode
    count = last - first + 1
    if device is None:
        reply = connection.core.GetKeyboardMapping(first, count).reply()
    else:
        reply = connection(xcffib.xinput.key).GetDeviceKeyMapping(device, first, count).reply()
    width, symbols = reply.keysyms_per_keycode, list(reply.keysyms)
    return Layout(first, [symbols[at : at + width] for at in range(0, len(symbols), width)])


def xtest_device(connection: Any) -> int | None:
    """The number of the keyboard that XTEST presses; None if the server shows none."""
    import xcffib.xinput

    devices = connection(xcffib.xinput.key)
    devices.XIQueryVersion(2, 0).reply()
    found = devices.XIQueryDevice(0).reply().infos
    keyboards = (info for info in found if info.type == xcffib.xinput.DeviceType.SlaveKeyboard)
    return next((info.deviceid for info in keyboards if info.name.to_string().endswith("XTEST keyboard")), None)
