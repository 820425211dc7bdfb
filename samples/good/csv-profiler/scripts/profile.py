"""Print one line per column of a CSV file: type, gaps, distinct values, range."""

import csv
import sys
from collections import Counter


def guess_type(values):
    for name, convert in (("integer", int), ("number", float)):
        try:
            for value in values:
                convert(value)
        except ValueError:
            continue
        return name
    return "text"


def describe(name, values):
    filled = [value for value in values if value.strip()]
    gaps = 1 - len(filled) / len(values) if values else 0
    kind = guess_type(filled[:1000])
    ordered = sorted(filled, key=float) if kind != "text" and filled else sorted(filled)
    span = f"{ordered[0]} … {ordered[-1]}" if ordered else "-"
    return f"{name:<24} {kind:<8} {gaps:>6.1%} empty  {len(Counter(filled)):>7} distinct  {span}"


def main(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    print(f"{len(rows)} rows")
    for name in rows[0] if rows else []:
        print(describe(name, [row[name] or "" for row in rows]))


if __name__ == "__main__":
    main(sys.argv[1])
