"""Facts on Debian packages, in an order in which packages might be added one after the other.

    python scripts/debian_packages.py debian.tsv
    lkge bench streams --stream debian.tsv --first 0.6 --size 3640

The index of packages is what `apt-cache dumpavail` prints on a Debian machine. A package comes with
its section, maintainer and source, with what it depends on, recommends and suggests, and with its
tags.
"""

import random
import re
import subprocess
import sys
from pathlib import Path

SECTIONS = frozenset(
    ("admin", "database", "editors", "graphics", "mail", "net", "sound", "text", "utils", "web")
)
MOST = 72_120
NAMED = {"Depends": "depends on", "Recommends": "recommends", "Suggests": "suggests"}

Fact = tuple[str, str, str]


def main() -> None:
    """Write the file that the command names."""
    dump = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)
    packages = {each["Package"]: each for each in map(fields_of, dump.stdout.split("\n\n")) if each}
    chosen = [name for name, each in packages.items() if each["Section"].split("/")[-1] in SECTIONS]
    random.Random(3).shuffle(chosen)
    facts = [fact for name in chosen for fact in facts_of(packages[name], packages)][:MOST]
    Path(sys.argv[1]).write_text("".join("\t".join(fact) + "\n" for fact in facts), "utf-8")


def fields_of(paragraph: str) -> dict[str, str]:
    """The fields of a package; lines that go on are joined."""
    joined = re.sub(r"\n[ \t]+", " ", paragraph)
    return dict(line.split(": ", 1) for line in joined.splitlines() if ": " in line)


def facts_of(package: dict[str, str], packages: dict[str, dict[str, str]]) -> list[Fact]:
    """The facts of one package, each once, about packages that are there."""
    name = package["Package"]
    found = [
        (name, "in section", package["Section"]),
        (name, "maintained by", package["Maintainer"].split(" <")[0]),
        (name, "from source", package.get("Source", name).split()[0] + " (source)"),
    ]
    for field, relation in NAMED.items():
        others = (
            re.split(r"[ (|:]", each.strip())[0] for each in package.get(field, "").split(",")
        )
        found += [(name, relation, other) for other in others if other in packages]
    tags = (tag.strip() for tag in package.get("Tag", "").split(","))
    found += [(name, f"has {tag.split('::')[0]}", tag) for tag in tags if "::" in tag]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    main()
