#!/usr/bin/env python3
"""How much of the tree a header reaches: the share of translation units that touching it rebuilds.

Usage: scripts/include_reach.py framework/tensor/backend.h ...
Follows #include lines as text, so it needs no build. Counts every .cpp and .cu file of the repository.
"""
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@functools.cache
def includes(file):
    """The repository's files that `file` names; a name starts at the top folder, or beside the file."""
    names = INCLUDE.findall((ROOT / file).read_text())
    candidates = [(name, str(pathlib.Path(file).parent / name)) for name in names]
    return [next((c for c in pair if (ROOT / c).is_file()), None) for pair in candidates]


def reached_from(unit):
    seen, open_files = {unit}, [unit]
    while open_files:
        for file in includes(open_files.pop()):
            if file is not None and file not in seen:
                seen.add(file)
                open_files.append(file)
    return seen


def main():
    headers = sys.argv[1:]
    if not headers:
        sys.exit(__doc__)
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "*.cpp", "*.cu"], capture_output=True, text=True,
                           check=True).stdout.split()
    reach = {unit: reached_from(unit) for unit in files if (ROOT / unit).is_file()}
    for header in headers:
        if not (ROOT / header).is_file():
            sys.exit(f"[include_reach] no such file: {header}; expected a path from the top folder")
        count = sum(header in seen for seen in reach.values())
        print(f"{header}: {count} of {len(reach)} units, {100 * count / len(reach):.0f} %")


if __name__ == "__main__":
    main()
