"""A window of an X11 display, to type into: a text of Tk's that says what stands in it.

python x11_window.py        prints each text as a line of JSON, until its input ends
"""

import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Window:
    """The window of a process of its own; `text` is what stood in it last."""

    process: "subprocess.Popen[str]"
    reader: threading.Thread = field(init=False)
    text: str = ""
    shown: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.text = json.loads(line)
                self.shown.set()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.reader.join(10)


def open_window(display: str) -> Window:
    """Open one that has the focus."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__))],
        env={"DISPLAY": display, "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    window = Window(process)
    assert window.shown.wait(30)
    return window


def main() -> None:
    import tkinter

    root = tkinter.Tk()
    text = tkinter.Text(root, width=80, height=10)
    text.pack()
    root.update()
    text.focus_force()
    root.update()
    said: list[str | None] = [None]
    ended = threading.Event()

    def look() -> None:
        now = text.get("1.0", "end-1c")
        if now != said[0]:
            said[0] = now
            print(json.dumps(now), flush=True)
        if ended.is_set():
            root.destroy()
        else:
            root.after(20, look)

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    look()
    root.mainloop()


if __name__ == "__main__":
    main()
