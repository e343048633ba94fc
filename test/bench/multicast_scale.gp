# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
#
# Draws what `multicast_scale --csv` has written: time over nodes, a panel for each operation.
#
#   multicast_scale --csv >scale.csv
#   gnuplot -e "data='scale.csv'; plot='scale.svg'" test/bench/multicast_scale.gp
set terminal svg size 1200,700 background 'white'
set output plot
set datafile separator ','
set logscale x 2
set logscale y 10
set xlabel 'nodes'
set ylabel 'us'
set key top left
set grid
set multiplot layout 2,3 title 'Reliable multicast over a simulated network: 10 Gbit/s, 1 us of wire'
rows(operation, lost) = sprintf('< awk -F, ''$1 == "%s" && $2 == "%s"'' %s', operation, lost, data)
do for [operation in '"barrier" "allreduce 8 B" "bcast 8 B" "bcast 64 KiB" "bcast 1 MiB"'] {
  set title operation
  plot for [lost in '0 0.1 1'] rows(operation, lost) using 3:4 with linespoints title lost.' % lost'
}
unset multiplot
