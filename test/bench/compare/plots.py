# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Plots by gnuplot, as SVG and PNG: curves over a parameter, or bars for a few cases."""
import os
import subprocess

from report import size_text

TERMINALS = (("svg", "svg size {width},500 background 'white'"),
             ("png", "pngcairo size {width},500"))
CURVES = """\
set logscale xy
set format x "{format}"
set logscale x {base}
set title "{title}" noenhanced
set xlabel "{xlabel}"
set ylabel "{ylabel}"
set style data linespoints
plot {curves}
"""
BARS = """\
unset logscale
{scale}
set format x
set format y
set title "{title}" noenhanced
set xlabel ""
set ylabel "{ylabel}"
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8 border -1
plot {curves}
"""
XLABELS = {"bytes": ("message size in bytes", "2^{%L}", 2), "entries": ("other entries", "%g", 10)}


def panel(folder, stem, kind, rows, names):
    """The gnuplot commands for one kind, its data in STEM.dat. Size 0 has no place on a
    logarithmic axis."""
    bars = kind.bars
    rows = [r for r in rows if bars or r[kind.parameter] > 0]
    with open(os.path.join(folder, stem + ".dat"), "w") as f:
        for row in rows:
            value = row[kind.parameter]
            label = f'"{size_text(value) if kind.parameter == "bytes" else value}"'
            f.write(",".join([label if bars else str(value), *(str(row[n]) for n in names)]) + "\n")
    if bars:
        values = [r[n] for r in rows for n in names]
        wide = min(values) > 0 and max(values) > 30 * min(values)
        top = 100 if kind.unit.startswith("percent") and max(values) <= 100 else "*"
        scale = "set logscale y; set yrange [*:*]" if wide else f"set yrange [0:{top}]"
        curves = ", ".join(f'"{stem}.dat" using {i + 2}{":xtic(1)" if i == 0 else ""} title "{n}"'
                           for i, n in enumerate(names))
        return BARS.format(title=kind.title, scale=scale, ylabel=kind.unit, curves=curves)
    xlabel, form, base = XLABELS[kind.parameter]
    curves = ", ".join(f'"{stem}.dat" using 1:{i + 2} title "{n}" lw 2 pt {2 * i + 5}'
                       for i, n in enumerate(names))
    return CURVES.format(title=kind.title, format=form, base=base, xlabel=xlabel,
                         ylabel=kind.unit, curves=curves)


def write_plots(folder, name, title, kinds, rows, names):
    """NAME.svg and NAME.png, one panel for each kind."""
    panels = []
    for kind in kinds:
        its = [r for r in rows if r["kind"] == kind.name]
        if its:
            panels.append(panel(folder, f"{name}-{kind.name}", kind, its, names))
    for suffix, terminal in TERMINALS:
        script = os.path.join(folder, f"{name}-{suffix}.gp")
        with open(script, "w") as f:
            f.write('set datafile separator ","\nset key below noenhanced\nset grid\n')
            f.write(f"set terminal {terminal.format(width=max(600, 500 * len(panels)))}\n")
            f.write(f'set output "{name}.{suffix}"\n')
            f.write(f'set multiplot layout 1,{len(panels)} title "{title}" noenhanced\n')
            f.write("".join(panels) + "unset multiplot\n")
        subprocess.run(["gnuplot", os.path.basename(script)], cwd=folder, check=True)
