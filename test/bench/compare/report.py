# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Tables on standard output and as CSV."""
import csv
import os
import statistics

from rounds import Outcome


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def figure_text(value, digits):
    return f"{value:.{digits if abs(value) < 10000 else 0}f}"


def quartile(values, lower):
    """The quartile on the good side: a quarter of the rounds was at least as good."""
    ordered = sorted(values, reverse=not lower)
    return ordered[(len(ordered) - 1) // 4]


def summarize(kinds, outcome):
    """Rows {kind, parameter, NAME: median, "NAME best", "NAME quartile", ratio}."""
    names, rows = outcome.names, []
    for kind in kinds:
        best = min if kind.lower else max
        for key in outcome.keys():
            if key[0] != kind.name:
                continue
            row = {"kind": kind.name, kind.parameter: key[1]}
            for name in names:
                values = outcome.values(name, key)
                row[name] = statistics.median(values)
                row[name + " best"] = best(values)
                row[name + " quartile"] = quartile(values, kind.lower)
            limits = outcome.floor(f"{kind.limit}-{key[1]}") if kind.limit else []
            if kind.bound:
                limits = kind.bound(outcome)
            if limits:
                row["limit"] = statistics.median(limits)
            row["ratio"] = ratio(outcome, key, best) if kind.ratio and len(names) > 1 else ""
            rows.append(row)
    return rows


def ratio(outcome, key, best):
    """Torii's value over the best other's of the same round, the median over rounds. Where the
    machine changes within a round, the best of several others is who met it at its best: there,
    Torii's median over the best median of another."""
    others = outcome.names[1:]
    if outcome.all_kept:
        medians = {name: statistics.median(outcome.values(name, key)) for name in outcome.names}
        return medians["Torii"] / best(medians[name] for name in others)
    return statistics.median(one.results["Torii"][key] / best(one.results[name][key] for name in others)
                             for one in outcome.kept)


def geometric_mean(rows, kind):
    """Of the ratios of all sizes."""
    return statistics.geometric_mean(row["ratio"] for row in rows if row["kind"] == kind)


def figures_of(kind, rows, name, several):
    """The median of each row and, of several rounds, the best one behind it."""
    medians = [figure_text(row[name], kind.digits) for row in rows]
    if not several:
        return medians
    best = [figure_text(row[name + " best"], kind.digits) for row in rows]
    width = max(7, *map(len, best))
    return [f"{one} {other:>{width}}" for one, other in zip(medians, best)]


def print_columns(columns):
    """Each is as wide as its longest text, two spaces from the one before it."""
    widths = [max(map(len, column)) + 2 for column in columns]
    for line in zip(*columns):
        print("".join(f"{text:>{width}}" for text, width in zip(line, widths)).rstrip())


def print_table(kind, rows, outcome):
    rows = [r for r in rows if r["kind"] == kind.name]
    if not rows:
        return
    several = len(outcome.kept) > 1
    how = "median of rounds and best one" if several else "one run"
    better = "below 1" if kind.lower else "above 1"
    note = f"; ratio {better}: Torii is better" if kind.ratio and len(outcome.names) > 1 else ""
    print(f"\n{kind.title} in {kind.unit}, {how}{note}")
    limited = any("limit" in row for row in rows)
    columns = [["size" if kind.parameter == "bytes" else kind.parameter] +
               [size_text(row[kind.parameter]) if kind.parameter == "bytes" else
                str(row[kind.parameter]) for row in rows]]
    columns += [[name, *figures_of(kind, rows, name, several)] for name in outcome.names]
    if note:
        columns.append(["Torii / best other", *(f"{row['ratio']:.2f}" for row in rows)])
    if limited:
        digits = kind.digits if kind.bound else 0
        columns.append(["limit", *(figure_text(row["limit"], digits) if "limit" in row else ""
                                   for row in rows)])
    print_columns(columns)
    if limited and kind.bound:
        print(f"limit: {kind.bound_text}")
    elif limited:
        print("limit: both processes read from each other by process_vm_readv, each block by a call "
              "of its own, and do nothing else")


def write_csv(path, rows):
    fields = list(dict.fromkeys(key for row in rows for key in row))
    with open(path, "w", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=fields, restval="")
        writer.writeheader()
        writer.writerows(rows)


def write_tables(folder, name, kinds, rows, outcome):
    """NAME.csv has the summary, NAME-rounds.csv every value of the rounds that were kept."""
    write_csv(os.path.join(folder, f"{name}.csv"), rows)
    parameter = {kind.name: kind.parameter for kind in kinds}
    every = []
    for number, one in enumerate(outcome.kept):
        for transport in outcome.names:
            for (kind, value), result in one.results[transport].items():
                every.append({"round": number, "transport": transport, "kind": kind,
                              parameter.get(kind, "parameter"): value, "value": result})
        for what in one.floors[0] if one.floors else ():
            for floor in one.floors:
                every.append({"round": number, "transport": "floor", "kind": what,
                              "value": floor.get(what, "")})
    write_csv(os.path.join(folder, f"{name}-rounds.csv"), every)


def print_rounds(what, outcome: Outcome):
    print(outcome.line(f"\n{what}"))
    line, copy = outcome.floor("line"), outcome.floor("memcpy")
    if not line:
        return
    text = (f"floor: a cache line from core to core {statistics.median(line):.1f} ns (best "
            f"{min(line):.1f}), memcpy {statistics.median(copy):.0f} MB/s")
    small, large = outcome.floor("readv-1"), outcome.floor("readv-65536")
    if small and large:
        text += (f", process_vm_readv of 1 B {statistics.median(small) / 1e3:.2f} us, of 64 KiB "
                 f"{statistics.median(large) / 1e3:.2f} us")
    else:
        text += ", process_vm_readv is refused"
    print(text)


def print_multiples(outcome, kind, largest):
    """Torii's times in microseconds as multiples of the floor of the same rounds."""
    floor = outcome.floor("line")
    if not floor:
        return
    texts = []
    for key in outcome.keys():
        if key[0] == kind and key[1] <= largest:
            many = [t * 1e3 / f for t, f in zip(outcome.values("Torii", key), floor)]
            texts.append(f"{size_text(key[1])} {statistics.median(many):.2f}")
    print(f"Torii's {kind} as multiple of the floor: " + ", ".join(texts))
