"""Write the repository's address wherever the project names it: `python deploy/address.py OWNER/NAME`, once, before the
first publication. Only files that git knows are changed, and the log keeps what it says.
"""

import argparse
import re
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_ADDRESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]+")
_KEPT = ("lab/log/", "tests/")


def current(root: Path = ROOT) -> str:
    """The OWNER/NAME that stands in pyproject.toml, under [project.urls]."""
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    return str(urls["Homepage"]).removeprefix("https://github.com/")


def moved(text: str, old: str, new: str) -> str:
    """The text with the addresses of the repository and of its pages replaced."""
    (owner, name), (new_owner, new_name) = old.split("/"), new.split("/")
    pages = f"https://{owner}.github.io/{name}/", f"https://{new_owner.lower()}.github.io/{new_name}/"
    repository = re.compile(rf"(?<=https://github\.com/){re.escape(old)}(?![\w.-]*\w)")
    return repository.sub(new, text).replace(*pages)


def named_in(root: Path = ROOT) -> list[Path]:
    """The files that may name the address: those that git knows, but for the log and the tests."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / name for name in names.split("\0") if name and not name.startswith(_KEPT)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Replace, and print the files that changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="OWNER/NAME")
    new = parser.parse_args(arguments).address
    if not _ADDRESS.fullmatch(new):
        parser.error(f"expected OWNER/NAME, as in the address of the repository; got {new!r}")
    old = current()
    for path in named_in():
        data = path.read_bytes() if path.is_file() else b""
        if b"\0" in data or b"github" not in data:
            continue
        text = data.decode("utf-8")
        if (changed := moved(text, old, new)) != text:
            path.write_bytes(changed.encode("utf-8"))
            print(path.relative_to(ROOT).as_posix())


if __name__ == "__main__":
    main()
